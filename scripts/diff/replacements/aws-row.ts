/**
 * AWS. `ForceNew` and `RequiresReplace` in the schemas of terraform-provider-aws 6 (`internal/service/<service>/<resource>.go`),
 * which @pulumi/aws 7 wraps, under the names that Pulumi gives the properties. What is in no list is not used by stacks, or has
 * conditions of its own there: it may replace.
 */
import type { ReplacementRow } from "./types.ts";

/**
 * @param replaces - Besides the region, which every resource has.
 * @param updates - Besides tags, which have calls of their own.
 */
export function awsRow(
  replaces: readonly string[],
  updates: readonly string[],
  more: Partial<ReplacementRow> = {},
): ReplacementRow {
  return {
    replaces: ["region", ...replaces],
    updates: ["tags", ...updates],
    deletesFirst: hasSameName,
    ...more,
  };
}

/** `nameRequiresDeleteBeforeReplace` of the Terraform bridge: AWS has no two things of one name. */
const hasSameName: ReplacementRow["deletesFirst"] = ({ before, after }) =>
  NAME_PROPERTIES.some((name) => after[name] !== undefined && before[name] === after[name]);

const NAME_PROPERTIES = ["name", "nodeGroupName"];
