/** `platform: docker`: the whole service on one Docker host, with or without GPUs. */
import * as pulumi from "@pulumi/pulumi";
import { planImages } from "../image-inputs.ts";
import { type DeployedStack, planOutputs } from "../outputs.ts";
import type { DockerCpuPlan } from "../plan/cpu-stack.ts";
import { type DockerStack, dockerStack } from "../plan/docker/docker-stack.ts";
import { SECRET_PATHS, type SecretName } from "../plan/docker/types.ts";
import type { DockerGpuPlan } from "../plan/gpu-stack.ts";
import { deployContainers } from "./docker-containers.ts";
import { secretValues } from "./program.ts";

/** Registers the resources of a stack on a Docker host. */
export function deploy(plan: DockerCpuPlan | DockerGpuPlan): DeployedStack {
  const { images } = planImages(plan);
  const stack = dockerStack(plan, { stack: pulumi.getStack(), images });

  deployContainers(stack, { uri: plan.host.uri, secrets: secretValues(SECRET_PATHS, secretNames(stack)) });

  const { endpoints, notes } = stack;
  return planOutputs(plan, () => "host", { endpoints, engineStore: engineStore(plan, stack), notes });
}

function secretNames({ containers }: DockerStack): readonly SecretName[] {
  return containers.flatMap(({ secretFiles }) => Object.values(secretFiles));
}

/** A folder of the host, or a volume; the CPU's models lie in their image. */
function engineStore(plan: DockerCpuPlan | DockerGpuPlan, { volumes }: DockerStack): string {
  if (plan.tier === "cpu") return "image";
  const volume = volumes.find(({ purpose }) => purpose === "store");
  return plan.host.storePath ?? `volume ${volume?.name}`;
}
