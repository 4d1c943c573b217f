/** Questions and output of `init`: machines that hold the models, their costs, and the text of the stack file. Pure. */
import { stringify } from "yaml";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { MODEL_NAMES } from "../../infra/plan/catalogue/cpu-models.ts";
import { GPU_NAMES, gpus } from "../../infra/plan/catalogue/gpus.ts";
import { LANGUAGE_MODELS, languageModels } from "../../infra/plan/catalogue/language-models.ts";
import { machineTypes } from "../../infra/plan/catalogue/machines.ts";
import { releases } from "../../infra/plan/catalogue/releases.ts";
import type { LanguageModel, Release } from "../../infra/plan/catalogue/types.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { CONFIG_NAMESPACE, ConfigError } from "../../infra/problems.ts";
import { HOURLY_DIGITS, usd } from "../plan/amounts.ts";
import { figure } from "../plan/text-table.ts";

/** Where a stack can run. */
export const PLACES = {
  local: "this machine, on its CPU",
  docker: "a Docker host",
  kubernetes: "a Kubernetes cluster",
  ec2: "AWS, one machine (EC2)",
  eks: "AWS, a cluster (EKS)",
} as const;
export type Place = keyof typeof PLACES;

/**
 * Values that are not chosen from a list. They go into the stack file unchanged, and the plan reports their problems.
 */
export interface Details {
  /** AWS account, twelve digits. */
  readonly account?: string | undefined;
  readonly region?: string | undefined;
  /** Network from which the API of a cluster on AWS is reached. */
  readonly apiCidr?: string | undefined;
  /** Registry from which a cluster pulls images. */
  readonly registry?: string | undefined;
  /** Source of the model hub's token: a file of a Docker host, a Secret of a cluster, or an ARN. */
  readonly hubTokenAt?: string | undefined;
  /** Address of a Docker engine. */
  readonly host?: string | undefined;
}

export interface Choice {
  readonly where: Place;
  /** Rows of the catalogue. */
  readonly models: readonly string[];
  readonly details: Details;
}

/** A machine that holds the models. */
export interface Offer {
  /** Instance type on AWS, else number and name of the GPUs, as `2xL40S`. */
  readonly machine: string;
  /** `1 × A10G, 17.2 of 21.9 GiB of GPU memory, $1.212 an hour` */
  readonly hint: string;
  /** Keys of the stack file. */
  readonly values: Values;
}

type Values = Readonly<Record<string, unknown>>;

export const isOnAws = (where: Place) => where === "ec2" || where === "eks";

const rows: Readonly<Record<string, LanguageModel>> = languageModels;

/** How a stack serves all its models; the first that they share is taken. */
const WAYS = {
  engine: "by an engine",
  llmapi: "by PyTorch",
  cpu: "on CPUs",
} as const;
type Way = keyof typeof WAYS;

const waysOf = (model: string): readonly Way[] => rows[model]?.runtimes ?? ["cpu"];

/** `by an engine or by PyTorch` */
export const wayWords = (model: string) =>
  waysOf(model)
    .map((way) => WAYS[way])
    .join(" or ");

/** undefined: the models share none. */
export const wayOf = (models: readonly string[]) =>
  (Object.keys(WAYS) as Way[]).find((way) => models.every((model) => waysOf(model).includes(way)));

/** Models that a place can serve. */
export function modelsOf(where: Place): readonly string[] {
  if (where === "local") return MODEL_NAMES;
  return isOnAws(where) ? LANGUAGE_MODELS : [...LANGUAGE_MODELS, ...MODEL_NAMES];
}

/** Whether the model hub gives one of the models only with a token. */
export function areGated(models: readonly string[]): boolean {
  return models.some((model) => rows[model]?.source.gated);
}

/** Largest machine that can be chosen; models that do not fit on it fit on none. */
export const largestMachine = (where: Place) => (isOnAws(where) ? "p5.48xlarge" : "8xH100");

/** Every machine on which the plan has no problem, the cheapest first. */
export function offers(choice: Choice): readonly Offer[] {
  const supported = GPU_NAMES.filter((name) => gpus[name].supported);
  const all = isOnAws(choice.where)
    ? Object.keys(machineTypes).filter((type) => (machineTypes[type]?.gpus ?? 0) > 0)
    : [1, 2, 4, 8].flatMap((count) => supported.map((name) => `${count}x${name}`));
  const found = all.flatMap((machine) => {
    try {
      return [planned(choice, machine)];
    } catch (error) {
      if (error instanceof ConfigError) return [];
      throw error;
    }
  });
  return found.toSorted((a, b) => a.hourlyUsd - b.hourlyUsd);
}

/**
 * @param machine - Machine of an {@link Offer}; without effect if the models run on CPUs.
 * @throws ConfigError with the plan's own problems.
 */
export function planned(choice: Choice, machine: string): Offer & { readonly hourlyUsd: number } {
  const gpuCount = machineTypes[machine]?.gpus ?? (Number.parseInt(machine, 10) || 1);
  const plan = (width: number): ReturnType<typeof planned> => {
    const values = stackValues(choice, machine, width);
    try {
      const stack = checkedPlan(values).plan;
      return { machine, values, hint: hintOf(machine, stack), hourlyUsd: stack.cost.hourlyUsd ?? 0 };
    } catch (error) {
      const isTooSmall =
        error instanceof ConfigError && error.problems.some(({ path }) => path.endsWith(".memoryFit"));
      if (isTooSmall && width * 2 <= gpuCount) return plan(width * 2);
      throw error;
    }
  };
  // Smallest number of GPUs that holds each model.
  return plan(1);
}

function hintOf(machine: string, plan: StackPlan): string {
  const { hourlyUsd, withoutPrice } = plan.cost;
  const isYourOwn = hourlyUsd === 0 && withoutPrice.length === 0;
  const price = isYourOwn
    ? "your own machine"
    : withoutPrice.length > 0
      ? `hourly cost not known (parts without a price in the catalogue: ${withoutPrice.length})`
      : `${usd(hourlyUsd, HOURLY_DIGITS)} an hour`;
  if (plan.tier === "cpu") return price;
  const [fullest] = plan.fit.toSorted((a, b) => b.needGiB / b.capacityGiB - a.needGiB / a.capacityGiB);
  if (fullest === undefined) return price;
  const type = machineTypes[machine];
  return [
    ...(type === undefined ? [] : [`${type.gpus} × ${type.gpu}`]),
    `${figure(fullest.needGiB, 1)} of ${figure(fullest.capacityGiB, 1)} GiB of GPU memory`,
    price,
  ].join(", ");
}

function stackValues({ where, models, details }: Choice, machine: string, width: number): Values {
  const { hubTokenAt } = details;
  const way = wayOf(models);
  return {
    ...PLATFORM_VALUES[where]({ details, machine, onCpu: way === "cpu", servers: models.length }),
    ...(way === "engine" && (where === "kubernetes" || where === "eks") ? ONE_GPU : {}),
    ...(way === "llmapi" ? llmapiRelease() : {}),
    ...(hubTokenAt === undefined ? {} : { hub: hubValues(where, hubTokenAt) }),
    models: models.map((model) => ({
      name: model.replaceAll(".", "-"),
      model,
      ...(way === "llmapi" ? { runtime: way } : {}),
      ...(width === 1 ? {} : { tensorParallel: width }),
    })),
  };
}

/** The newest release that shows pictures to models without an engine. */
function llmapiRelease(): Values {
  const release = Object.values<Release>(releases).findLast(({ hasLlmapiPictures }) => hasLlmapiPictures);
  return { release: release?.tag, ...(release?.verified ? {} : { acceptUnverified: true }) };
}

function hubValues(where: Place, tokenAt: string): Values {
  if (isOnAws(where)) return { tokenSecretArn: tokenAt };
  return where === "docker" ? { tokenFile: tokenAt } : { tokenSecret: { name: tokenAt } };
}

interface MachineChoice {
  readonly details: Details;
  readonly machine: string;
  readonly onCpu: boolean;
  /** Number of language models, each of which needs its own GPUs in a cluster. */
  readonly servers: number;
}

/** The model is unavailable while a GPU's only server is replaced, or its engine built. */
const ONE_GPU = { engines: { whenFull: "stopServer" } };

const PLATFORM_VALUES: Readonly<Record<Place, (choice: MachineChoice) => Values>> = {
  local: () => ({ platform: "local" }),
  docker: ({ details: { host }, machine, onCpu }) => {
    const uri = host === undefined ? {} : { uri: host };
    return onCpu
      ? { platform: "docker", tier: "cpu", ...(host === undefined ? {} : { host: uri }) }
      : { platform: "docker", host: { ...uri, machine: ownMachine(machine) } };
  },
  kubernetes: ({ details: { registry }, machine, onCpu, servers }) => ({
    platform: "kubernetes",
    ...(onCpu ? { tier: "cpu" } : {}),
    images: { registry },
    ...(onCpu ? {} : { pools: [{ name: "gpu", machine: ownMachine(machine), ...nodes(servers) }] }),
  }),
  ec2: ({ details: { account, region }, machine }) => ({
    ...{ platform: "aws", compute: "ec2", account, region },
    pools: [{ name: "gpu", instanceType: machine }],
  }),
  eks: ({ details: { account, region, apiCidr }, machine, servers }) => ({
    ...{ platform: "aws", account, region },
    access: { apiCidrs: apiCidr === undefined ? [] : [apiCidr] },
    pools: [
      { name: "gpu", instanceType: machine, ...nodes(servers) },
      { name: "cpu", instanceType: "m7i.xlarge", zones: ["a"] },
    ],
  }),
};

const nodes = (servers: number) => (servers === 1 ? {} : { nodes: { min: servers, max: servers } });

/** CPUs and memory of a common server for each GPU. */
function ownMachine(machine: string): Values {
  const [, count = "1", gpu = machine] = /^(\d+)x(.+)$/.exec(machine) ?? [];
  const number = Number(count);
  return { gpu, gpus: number, vcpus: 16 * number, memoryGiB: 64 * number };
}

/** A line above the key. */
const COMMENTS: Readonly<Record<string, string>> = {
  account: "No other account is touched.",
  access: "Networks that may reach the cluster's API.",
  host: "The machine of the Docker engine. vcpus and memoryGiB are assumed: write those of the machine.",
  pools:
    "Machines: `npx engine-room plan` prints their cost, and preflight checks whether they are available.",
  images: "`npx engine-room images --push` pushes them there once; the cluster pulls them.",
  engines: "A GPU's server stops while its next engine is built.",
  release: "It serves models by PyTorch, without an engine.",
  acceptUnverified: "Not all facts about this release are verified: docs/tasks/add-a-model.md.",
  hub: "Where the token of the model hub is.",
};

/** Text of a stack file. @param schema - Path of the JSON Schema from the file's folder. */
export function stackFileText(values: Values, commands: readonly string[], schema: string): string {
  const keys = Object.entries(values).flatMap(([key, value]) => [
    ...(COMMENTS[key] === undefined ? [] : [`# ${COMMENTS[key]}`]),
    ...stringify({ [`${CONFIG_NAMESPACE}:${key}`]: value }, { lineWidth: 0 })
      .trimEnd()
      .split("\n"),
  ]);
  return [
    `# yaml-language-server: $schema=${schema}`,
    ...commands.map((command) => `#   ${command}`),
    "config:",
    ...keys.map((line) => `  ${line}`),
    "",
  ].join("\n");
}
