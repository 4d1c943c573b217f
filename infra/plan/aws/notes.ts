/** What users of a stack on AWS have to know, besides what they have to of the platform below. */
import type { AwsPlan } from "../gpu-stack.ts";
import { hasEdge } from "./services.ts";
import type { AwsContext, EdgePlan } from "./types.ts";

/** Pure. */
export function awsNotes(plan: AwsPlan, context: AwsContext, edge: EdgePlan): readonly string[] {
  return [...keyNote(plan, edge), downNote(plan, context)];
}

function keyNote({ config }: AwsPlan, edge: EdgePlan): readonly string[] {
  if (config.gateway.apiKeys.length > 0) return [];
  const who = hasEdge(config)
    ? `Everybody in ${edge.cidrs.join(", ")}${config.compute === "eks" ? ", every pod of the cluster among them," : ""}`
    : "Every pod of the cluster";
  return [`${who} may use the models: gateway.apiKeys is empty; \`npm run key\` makes a key.`];
}

function downNote({ config }: AwsPlan, { isRetained, stack }: AwsContext): string {
  if (isRetained)
    return "`npm run down` stops at what `retain` protects: docs/aws.md says how such a stack ends, and that documents and engines go with it.";
  const { existing } = config.engineStore;
  const lost =
    existing === undefined
      ? "documents, weights and engines with it"
      : `documents with it; weights and engines stay in ${existing.fileSystemId}`;
  return `\`npm run down\` deletes all that the stack has made, ${lost}. \`retain: [${stack}]\` has it stop before that.`;
}

/** Whether the gateway has a name whose record is not the stack's to make. */
export function needsRecord({ hostname, zoneId }: EdgePlan): boolean {
  return hostname !== null && zoneId === null;
}

/** @param dnsName - Of the load balancer. */
export function recordNote({ hostname }: EdgePlan, dnsName: string): string {
  return `Nobody finds ${hostname} until its record points at the load balancer: a CNAME, or an alias, of ${dnsName}.`;
}
