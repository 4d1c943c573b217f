/**
 * AWS, under the names that Pulumi gives the properties. What is in no list is not used by stacks, or has conditions of its own: it
 * may replace. Not all rows have a source.
 *
 * - Read: `ForceNew` and `RequiresReplace` in the schemas of terraform-provider-aws 6 (`internal/service/<service>/<resource>.go`),
 *   which @pulumi/aws 7 wraps. Clusters, node groups, add-ons, access entries and their policies; instances, volumes and their
 *   attachments, file systems;
 *   endpoints, load balancers, target groups, NAT gateways, rules of security groups, flow logs; documents and associations of SSM,
 *   records of Route 53, versions of secrets.
 * - Not read, but from its documents and general use: launch templates, tags of autoscaling groups, pod identities; VPCs, subnets,
 *   internet gateways, addresses, route tables with routes and associations, security groups, listeners, attachments of targets;
 *   mount targets, access points and policies of file systems; ECR, IAM, KMS, log groups, secrets, budgets.
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
