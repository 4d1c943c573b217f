/** Checks of stacks on CPUs. Nothing that plans GPUs is loaded for them. */
import type { CpuStackConfig } from "../../config/config.ts";
import { type Problem, showValue } from "../../problems.ts";
import { cpuModels } from "../catalogue/cpu-models.ts";
import { mostAnswerTokens } from "../cpu-stack.ts";
import { externalDatabaseChecks, gatewayChecks, repeatedKeyNames } from "./access.ts";
import { asProblems, type CheckedFile, type Checks, flatFindings } from "./check.ts";
import { dockerChecks } from "./docker.ts";
import { CERTIFICATE_KEYS, kubernetesChecks, scalingChecks, unreadScaling } from "./kubernetes.ts";
import { atMost, repeated, repeatedNames } from "./shared-messages.ts";

type ConfigOf<Platform> = Extract<CpuStackConfig, { platform: Platform }>;

/** Services that every stack has; a model of the same name would share their files and endpoints. */
const RESERVED_NAMES = ["encoders", "gateway", "mongo", "python", "vector"];

const modelChecks = {
  namesAreFree: ({ config: { models } }) =>
    models.map(
      ({ name }, index) =>
        RESERVED_NAMES.includes(name) && {
          path: `models[${index}].name`,
          reason: `The name is reserved for a service. Reserved are ${RESERVED_NAMES.join(", ")}.`,
          fix: "Give the model another name.",
        },
    ),

  modelNamesDiffer: ({ config: { models } }) =>
    repeatedNames(models, "models", "model", "endpoints and files are named by it"),

  keyNamesDiffer: repeatedKeyNames,

  contextHoldsPrompt: ({ config: { models } }) =>
    models.map(
      ({ contextTokens, maxTokens }, index) =>
        maxTokens !== undefined &&
        maxTokens >= contextTokens && {
          path: `models[${index}].maxTokens`,
          reason: `${maxTokens} tokens of answer leave no room for a prompt in a context of ${contextTokens}.`,
          fix: `Use ${contextTokens - 1} or less, or raise contextTokens.`,
        },
    ),

  ownGoldenIsAsked: ({ config: { models } }) =>
    models.map((model, index) => {
      const asked = model.golden?.maxTokens ?? 0;
      const most = mostAnswerTokens(model);
      return (
        asked > most && {
          path: `models[${index}].golden.maxTokens`,
          value: showValue(asked),
          reason: `The model gives answers of at most ${most} tokens.`,
          fix: `${atMost(most)}, or raise maxTokens.`,
        }
      );
    }),

  // A context longer than the model was trained for gives nonsense, not an error.
  contextIsTrained: ({ config: { models } }) =>
    models.map(({ model, contextTokens }, index) => {
      const { trainedContextTokens } = cpuModels[model];
      if (contextTokens <= trainedContextTokens) return [];
      return {
        path: `models[${index}].contextTokens`,
        reason: `${model} was trained for a context of ${trainedContextTokens} tokens.`,
        fix: `Use ${trainedContextTokens} or less.`,
      };
    }),
} satisfies Checks<CheckedFile<CpuStackConfig>>;

const localChecks = {
  localPortsDiffer: ({ config: { gateway, databasePorts, encoders, models } }) => {
    const all = [
      { path: "gateway.port", value: gateway.port },
      ...portsOf("databasePorts", databasePorts),
      ...portsOf("encoders.ports", encoders.ports),
      ...models.flatMap(({ ports }, index) => portsOf(`models[${index}].ports`, ports)),
    ];
    return repeated(
      all.filter(({ value }) => value !== 0),
      (first) => ({
        reason: `The port is also used by ${first}.`,
        fix: "Use another port, or 0 for any free port.",
      }),
    );
  },

  databasesNeedNoContainers: ({ config }) =>
    config.databases === "container" && {
      path: "databases",
      reason: "This platform starts no containers.",
      fix: "Write mock, or external for databases that run already.",
    },
} satisfies Checks<CheckedFile<ConfigOf<"local">>>;

/** In the order in which findings are shown. */
const platformChecks: { readonly [Name in CpuStackConfig["platform"]]: Checks<CheckedFile<ConfigOf<Name>>> } =
  {
    local: { ...localChecks, ...externalDatabaseChecks("mongo.uriFile and vector.url") },
    docker: { ...dockerChecks, ...externalDatabaseChecks("mongo.uri and vector.url") },
    kubernetes: {
      ...externalDatabaseChecks("mongo.uri or mongo.uriSecret, and vector.url"),
      ...scalingChecks,
      ...kubernetesChecks,
      ...gatewayChecks(CERTIFICATE_KEYS),
      scalingIsRead: ({ config }) => unreadScaling(config),
    },
  };

/** Errors, warnings and notes for a stack on CPUs. */
export function findCpuProblems(
  config: CpuStackConfig,
  written: CheckedFile["written"],
): { readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] } {
  // Each table takes the configuration of its own platform.
  const ofPlatform = platformChecks[config.platform] as Checks<CheckedFile<CpuStackConfig>>;
  const findings = Object.values({ ...ofPlatform, ...modelChecks }).map((check) =>
    check({ config, written }),
  );
  return asProblems(flatFindings(findings), config);
}

function portsOf(path: string, ports: Readonly<Record<string, number>>) {
  return Object.entries(ports).map(([name, value]) => ({ path: `${path}.${name}`, value }));
}
