/** A stack of `tier: cpu` on a Docker host, on free ports. */
import { loadPlan } from "../../infra/load-plan.ts";
import type { StackOutputs } from "../../infra/outputs.ts";
import type { DockerCpuPlan } from "../../infra/plan/cpu-stack.ts";
import { dockerStack } from "../../infra/plan/docker/docker-stack.ts";
import type { DockerStack, LockedImage } from "../../infra/plan/docker/types.ts";
import { freePorts } from "../harness/docker/ports.ts";

/** @param references - Of images that are on the host, by name. */
export async function cpuTierStack(
  name: string,
  references: Readonly<Record<"services" | "cpu-models", string>>,
): Promise<{ readonly plan: DockerCpuPlan; readonly stack: DockerStack; readonly outputs: StackOutputs }> {
  const ports = await freePorts(9);
  const take = () => ports.pop() ?? 0;
  const triton = () => ({ http: take(), grpc: take(), metrics: take() });
  const plan = await loadPlan({
    platform: "docker",
    tier: "cpu",
    models: [{ name: "smollm2", model: "smollm2-135m-instruct", contextTokens: 512, ports: triton() }],
    encoders: { ports: triton() },
    databasePorts: { mongo: take(), vector: take() },
    gateway: { port: take() },
  });
  if (plan.platform !== "docker" || plan.tier !== "cpu") throw new Error("The plan is of another kind.");
  const images = Object.entries(references).map(
    ([image, reference]) =>
      ({ kind: "locked", name: image as keyof typeof references, reference }) satisfies LockedImage,
  );
  const stack = dockerStack(plan, { stack: name, images });
  const { release, cost } = plan;
  const models = plan.models.map((model) => ({
    ...{ name: model.name, model: model.model },
    ...{ release, engineKey: null, nodePool: "host" },
  }));
  const { endpoints, notes } = stack;
  return { plan, stack, outputs: { endpoints, models, release, engineStore: "", cost, notes } };
}
