/**
 * AWS, under the names that Pulumi gives the properties. What is in no list is not used by stacks, or has conditions of its own: it
 * may replace.
 *
 * - What replaces: `ForceNew`, `RequiresReplace` and `CustomizeDiff` of each type in terraform-provider-aws
 *   (`internal/service/<service>/<resource>.go`), of which @pulumi/aws 7 wraps version 6. Of some types only an older version of the
 *   file was at hand: launch templates, tags of autoscaling groups, internet gateways, route tables, routes and their associations,
 *   listeners, ECR repositories, roles, policies of roles and their attachments, aliases of keys, budgets.
 * - What goes first: pulumi-aws (`provider/resource_overrides.go`, `provider/autonaming.go`, which set no `UniqueNameFields`) and
 *   `nameRequiresDeleteBeforeReplace` of pulumi-terraform-bridge (`pkg/tfbridge/schema.go`).
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
    deletesFirst: hasNameOfProgram,
    ...more,
  };
}

/**
 * AWS has no two things of one name, so what has one from the program goes first, whether or not the name is another one then.
 * Those that Pulumi names itself, or AWS by a prefix, have a random end.
 */
const hasNameOfProgram: ReplacementRow["deletesFirst"] = ({ after }) =>
  NAME_PROPERTIES.some((name) => after[name] !== undefined);

/** Those that Pulumi fills where the program does not. */
const NAME_PROPERTIES = ["name", "nodeGroupName", "creationToken"];
