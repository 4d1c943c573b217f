/** The graph of bootstrap/ for two stacks and a repository on GitHub. */
import { parseBootstrap } from "../../../infra/config/bootstrap.ts";
import { bootstrapPlan } from "../../../infra/plan/aws/bootstrap.ts";
import { deployBootstrap } from "../../../infra/platforms/bootstrap.ts";
import { renderStack } from "../../../scripts/render.ts";
import { ACCOUNT, REGION } from "../../harness/aws/stacks.ts";
import { withPlainTraces } from "../platforms/program.ts";

/** Values without their namespace, as `pulumi config set` takes them. */
export type BootstrapValues = Readonly<Record<string, unknown>>;

export const VALUES: BootstrapValues = {
  account: ACCOUNT,
  region: REGION,
  stacks: ["dev", "prod"],
  github: { repository: "octo-org/rooms" },
  zoneIds: ["Z0123456789ABCDEFGHIJ"],
};

/** Values as the Pulumi runtime passes them. */
export function runtimeValues(values: BootstrapValues): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).map(([key, value]) => [
      `engine-room-bootstrap:${key}`,
      typeof value === "string" ? value : JSON.stringify(value),
    ]),
  );
}

export const planOf = (values: BootstrapValues = VALUES) =>
  bootstrapPlan(parseBootstrap(runtimeValues(values)));

/** Graph of a first preview. */
export function renderedBootstrap(values: BootstrapValues = VALUES) {
  const config = { values: {}, secretKeys: [] };
  return withPlainTraces(() => renderStack("main", config, async () => deployBootstrap(planOf(values))));
}
