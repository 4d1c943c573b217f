/** Names that would meet, and names that are too long for what carries them. */
import { declaredPools } from "../resolve/pools.ts";
import { type Check, modelCheck, type Remark, stackCheck } from "./finding.ts";

/** Services that every stack has; a model of the same name would share their endpoints and objects. */
const RESERVED_NAMES: readonly string[] = ["encoders", "gateway", "mongo", "vector"];

/** Longest label of Kubernetes; a Job's pods carry its name as one. */
const LONGEST_LABEL = 63;
/** `-` and the first twelve digits of an engine's key. */
const KEY_SUFFIX_LENGTH = 13;

export const nameChecks = {
  namesAreFree: nameCheck((all) =>
    all.flatMap(({ name, path }) => {
      if (!RESERVED_NAMES.includes(name)) return [];
      return [
        {
          path,
          reason: `Services of every stack have the names ${RESERVED_NAMES.join(", ")}.`,
          fix: "Give the model another name.",
        },
      ];
    }),
  ),

  modelNamesDiffer: nameCheck((all) =>
    repeated(
      all,
      (first) => `The name is taken by ${first}; endpoints, metrics and objects are named by it.`,
      "Give each model a name of its own.",
    ),
  ),

  poolNamesDiffer: stackCheck(["pools.name"], ({ config }) =>
    repeated(
      declaredPools(config).map(({ name, path }) => ({ name, path: `${path}.name` })),
      (first) => `The name is taken by ${first}; models name their pool by it.`,
      "Give each pool a name of its own.",
    ),
  ),

  keyNamesDiffer: stackCheck(["gateway"], ({ config }) =>
    repeated(
      config.gateway.apiKeys.map(({ name }, index) => ({ name, path: `gateway.apiKeys[${index}].name` })),
      (first) => `The name is taken by ${first}; limits and metrics are kept per name.`,
      "Give each key a name of its own.",
    ),
  ),

  modelNameFitsObjects: modelCheck(["catalogue"], ({ engine, path }) => {
    const most = LONGEST_LABEL - KEY_SUFFIX_LENGTH;
    if (engine.model.length <= most) return [];
    return [
      {
        path: `${path}.model`,
        reason: `An engine's build is named after its model and ${KEY_SUFFIX_LENGTH - 1} digits of its key; ${engine.model.length} characters and ${KEY_SUFFIX_LENGTH} more are over the ${LONGEST_LABEL} that a Kubernetes label holds.`,
        fix: `Use a name of at most ${most} characters under catalogue.models.`,
      },
    ];
  }),
} satisfies Record<string, Check>;

interface Named {
  readonly name: string;
  readonly path: string;
}

/** A check of the names of models, also of those that could not be resolved; it rests on nothing but the name. */
function nameCheck(remarks: (all: readonly Named[]) => readonly Remark[]): Check {
  return {
    scope: "model",
    keys: [],
    remarks: ({ config }) =>
      remarks(config.models.map(({ name }, index) => ({ name, path: `models[${index}].name` }))),
  };
}

function repeated(
  all: readonly Named[],
  reason: (firstPath: string) => string,
  fix: string,
): readonly Remark[] {
  return all.flatMap(({ name, path }, index) => {
    const first = all.findIndex((one) => one.name === name);
    return first === index ? [] : [{ path, reason: reason(all[first]?.path ?? ""), fix }];
  });
}
