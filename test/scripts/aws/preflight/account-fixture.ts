/** An account and a model hub for preflight, with all that a small stack needs. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, vi } from "vitest";
import { checkedPlan } from "../../../../infra/checked-plan.ts";
import type { AwsPlan } from "../../../../infra/plan/gpu-stack.ts";
import { awsPreflight } from "../../../../scripts/preflight/aws.ts";
import type { MachineNeed } from "../../../../scripts/preflight/aws-capacity.ts";
import type { Finding } from "../../../../scripts/preflight/finding.ts";
import { awsTarget } from "../../../../scripts/program/targets.ts";
import { EKS_STACK } from "../../../harness/aws/stacks.ts";
import { type Answers, account } from "../account.ts";
import { type FakeAws, startFakeAws, stubCredentials } from "../fake-aws.ts";

export type Values = Readonly<Record<string, unknown>>;

export const eks: Values = EKS_STACK;

export const MACHINE = { isSpot: false, vcpus: 4, plannedMachines: 1, maxMachines: 1 };
export const MACHINES: readonly MachineNeed[] = [
  { pool: "gpu", instanceType: "g5.xlarge", ...MACHINE, maxMachines: 2 },
  { pool: "cpu", instanceType: "m7i.xlarge", ...MACHINE },
];
interface World {
  /** The last account. */
  aws: FakeAws | undefined;
  /** Public address of this machine. */
  ownAddress: string;
  /** Addresses of its network interfaces. */
  localAddresses: readonly string[];
  /** Status of the model hub's response. */
  hubStatus: number;
  hubAsked: { readonly path: string; readonly authorization: string | undefined }[];
}

/** Environment of preflight, reset before each test. */
export const world: World = {
  aws: undefined,
  ownAddress: "1.2.3.4",
  localAddresses: ["192.168.1.7"],
  hubStatus: 302,
  hubAsked: [],
};

/** Sets credentials and a model hub. */
export function useWorld(): void {
  let hub: Server | undefined;

  beforeEach(async () => {
    Object.assign(world, {
      aws: undefined,
      ownAddress: "1.2.3.4",
      localAddresses: ["192.168.1.7"],
      hubStatus: 302,
      hubAsked: [],
    });
    hub = createServer((request, response) => {
      world.hubAsked.push({ path: request.url ?? "", authorization: request.headers.authorization });
      response.statusCode = world.hubStatus;
      response.end();
    });
    await new Promise<void>((resolve) => hub?.listen(0, "127.0.0.1", resolve));
    stubCredentials();
    vi.stubEnv("HF_ENDPOINT", `http://127.0.0.1:${(hub.address() as AddressInfo).port}`);
    vi.stubEnv("HF_TOKEN", undefined);
  });
  afterEach(async () => {
    hub?.close();
    await world.aws?.close();
  });
}

/** Other registries have all images; the machine's address is that of the stack file. */
export const others = {
  registry: async () => ({ kind: "present" }) as const,
  localAddresses: () => world.localAddresses,
  ownAddress: async () => world.ownAddress,
};

/** Result of each check of a stack. @param changes - Changed responses of the account. */
export async function preflight(changes: Answers = {}, values = eks, needs = MACHINES) {
  world.aws = await startFakeAws(account(changes));
  vi.stubEnv("AWS_ENDPOINT_URL", world.aws.url);
  const target = awsTarget(checkedPlan(values).plan as AwsPlan, "dev");
  return awsPreflight(target, others, needs);
}

/** Findings, except those of images, which are not pushed here. */
export async function found(
  changes: Answers = {},
  values = eks,
  needs = MACHINES,
): Promise<readonly Finding[]> {
  const checks = await preflight(changes, values, needs);
  return checks.flatMap(({ findings }) => findings).filter(({ check }) => check !== "images");
}
