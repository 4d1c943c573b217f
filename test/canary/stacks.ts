/** A stack file of each platform and tier with a canary in every place that takes a secret. */
import type { z } from "zod";
import { ec2Stack, eksStack } from "../../infra/config/aws-stacks.ts";
import { dockerCpuStack, dockerStack, localStack } from "../../infra/config/host-stacks.ts";
import { kubernetesCpuStack, kubernetesStack } from "../../infra/config/kubernetes-stacks.ts";
import { type SecretPlace, secretPlaces } from "./places.ts";

type Values = Record<string, unknown>;

const cpuModels = [{ name: "smollm2", model: "smollm2-135m-instruct" }];
const gpuModels = [{ name: "gpt2-medium", model: "gpt2-medium" }];
const cpuMachine = { vcpus: 16, memoryGiB: 64, networkMbps: 10_000 };
const gpuMachine = { gpu: "L40S", gpus: 2, vcpus: 32, memoryGiB: 128, networkMbps: 10_000 };

interface Base {
  readonly schema: z.ZodType;
  readonly values: Values;
}

export const bases = {
  local: { schema: localStack, values: { platform: "local", models: cpuModels } },
  docker: {
    schema: dockerStack,
    values: { platform: "docker", models: gpuModels, host: { machine: gpuMachine } },
  },
  "docker-cpu": { schema: dockerCpuStack, values: { platform: "docker", tier: "cpu", models: cpuModels } },
  kubernetes: {
    schema: kubernetesStack,
    values: {
      platform: "kubernetes",
      models: gpuModels,
      images: { registry: "registry.example.org/engine-room" },
      pools: [
        { name: "gpu", machine: gpuMachine },
        { name: "cpu", machine: cpuMachine },
      ],
    },
  },
  "kubernetes-cpu": {
    schema: kubernetesCpuStack,
    values: {
      platform: "kubernetes",
      tier: "cpu",
      models: cpuModels,
      images: { registry: "registry.example.org/engine-room" },
    },
  },
  aws: {
    schema: eksStack,
    values: {
      platform: "aws",
      account: "111122223333",
      region: "us-east-1",
      access: { apiCidrs: ["203.0.113.7/32"] },
      pools: [
        { name: "gpu", instanceType: "g5.xlarge" },
        { name: "cpu", instanceType: "m7i.xlarge" },
      ],
      engines: { whenFull: "stopServer" },
      models: gpuModels,
    },
  },
  "aws-ec2": {
    schema: ec2Stack,
    values: {
      platform: "aws",
      compute: "ec2",
      account: "111122223333",
      region: "us-east-1",
      pools: [{ name: "machine", instanceType: "g5.2xlarge" }],
      models: gpuModels,
    },
  },
} as const satisfies Record<string, Base>;
export type BaseName = keyof typeof bases;

/** Places of a base that get a canary at once: texts, or without texts files, since the two exclude each other. */
export function placesOf(name: BaseName): readonly SecretPlace[] {
  const all = secretPlaces(bases[name].schema);
  const texts = all.filter(({ kind }) => kind === "text");
  return texts.length > 0 ? texts : all;
}

/** Text of a secret that no other text has, and that no quoting changes. */
export function canaryOf(name: BaseName, { path }: SecretPlace): string {
  return `canary${name.replace("-", "")}${path.join("")}hush`;
}

/** @param put - Returns the value of a place: the secret, or the path of its file. */
export function planted(name: BaseName, put: (place: SecretPlace) => unknown): Values {
  const values = structuredClone(bases[name].values) as Values;
  for (const place of placesOf(name)) {
    if (place.path[0] === "externalDatabases") {
      values.databases = "external";
      set(values, ["externalDatabases", "vector", "url"], "http://10.0.0.5:6333");
    }
    set(values, place.path, put(place));
  }
  return values;
}

export function set(values: Values, [key = "", ...rest]: readonly string[], value: unknown): void {
  if (rest.length === 0) values[key] = value;
  else {
    values[key] ??= {};
    set(values[key] as Values, rest, value);
  }
}
