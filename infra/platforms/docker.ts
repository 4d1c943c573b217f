/** `platform: docker`: the whole service on one Docker host, with or without GPUs. */
import * as pulumi from "@pulumi/pulumi";
import { planImages } from "../image-inputs.ts";
import type { DeployedStack, ModelOutput } from "../outputs.ts";
import type { DockerCpuPlan } from "../plan/cpu-stack.ts";
import { dockerStack } from "../plan/docker/docker-stack.ts";
import { type DockerStack, SECRET_PATHS, type SecretName } from "../plan/docker/types.ts";
import type { DockerGpuPlan } from "../plan/gpu-stack.ts";
import { deployContainers } from "./docker-containers.ts";

/** Registers the resources of a stack on a Docker host. */
export function deployDocker(plan: DockerCpuPlan | DockerGpuPlan): DeployedStack {
  const { images } = planImages(plan);
  const stack = dockerStack(plan, { stack: pulumi.getStack(), images });

  deployContainers(stack, { uri: plan.host.uri, secrets: secrets(stack) });

  const { hourlyUsd, monthlyUsd, buildUsd, pricesAsOf } = plan.cost;
  return {
    endpoints: stack.endpoints,
    models: models(plan),
    release: plan.tier === "cpu" ? plan.release : plan.release.tag,
    engineStore: engineStore(plan, stack),
    cost: { hourlyUsd, monthlyUsd, buildUsd, pricesAsOf },
    notes: stack.notes,
  };
}

/** Those that containers name. The plan has no secret, so they are read from the stack's configuration here. */
function secrets(stack: DockerStack): Partial<Record<SecretName, pulumi.Output<string>>> {
  const config = new pulumi.Config();
  const names = new Set(stack.containers.flatMap(({ secretFiles }) => Object.values(secretFiles)));
  return Object.fromEntries(
    [...names].map((name) => {
      const [key = "", ...path] = SECRET_PATHS[name].split(".");
      return [name, config.requireSecretObject<unknown>(key).apply((value) => textAt(value, path))];
    }),
  );
}

function textAt(value: unknown, path: readonly string[]): string {
  const found = path.reduce<unknown>((inner, key) => (inner as Record<string, unknown>)[key], value);
  // Encrypted where nothing is deployed, and so nobody decrypts: a rendered stack, which shows no secret anyway.
  return typeof found === "string" ? found : "";
}

function models(plan: DockerCpuPlan | DockerGpuPlan): ModelOutput[] {
  if (plan.tier === "cpu") {
    const { release } = plan;
    return plan.models.map(({ name, model }) => ({
      name,
      model,
      release,
      engineKey: null,
      nodePool: "host",
    }));
  }
  return plan.models.map(({ name, spec, engine }) => ({
    name,
    model: spec.engine.model,
    release: plan.release.tag,
    engineKey: engine?.key ?? null,
    nodePool: "host",
  }));
}

/** A folder of the host, or a volume; the CPU's models lie in their image. */
function engineStore(plan: DockerCpuPlan | DockerGpuPlan, { volumes }: DockerStack): string {
  if (plan.tier === "cpu") return "image";
  const volume = volumes.find(({ purpose }) => purpose === "store");
  return plan.host.storePath ?? `volume ${volume?.name}`;
}
