/**
 * Effect of a change on a stack, as data: computed in one place, shown as Markdown, text or JSON. The schema checks
 * untrusted data.
 */
import { z } from "zod";
import { UserError } from "../errors.ts";

const text = z.string().max(100_000);
const name = z.string().max(500);

const problem = z.strictObject({
  path: text,
  value: text,
  reason: text,
  fix: text,
  /** Line of invalid YAML. */
  line: z.int().min(1).exactOptional(),
  isListedByFull: z.literal(true).exactOptional(),
});

/** One side of a comparison. */
const comparedTree = z.strictObject({
  /** As the caller wrote it: `origin/main`; null for the working tree. */
  ref: name.nullable(),
  /** Null for the working tree. */
  commit: name.nullable(),
  /** Whether it has a file of the stack. Without a file in the base, all of the head is new. */
  hasStack: z.boolean(),
  /** Why it can't be compared, in one sentence: the rest of the report then shows only the other side. */
  failure: text.nullable(),
  /** Problems of its stack file; with one there is no graph. */
  problems: z.array(problem),
});

/**
 * `may-replace`: the lists of replacements do not have the property, and the provider may replace the resource. Reports
 * and JSON have them in this order: possible losses first.
 */
const changeKinds = ["replace", "may-replace", "delete", "update", "create"] as const;

const propertyDifference = z.strictObject({
  /** `spec.template.spec.containers[gateway].image`, `data."server.json".launch`; elements without a name by their place, `args[0]`. */
  path: text,
  kind: z.enum(["add", "update", "delete"]),
  /**
   * As shown: JSON, cut around the difference, or the lines of a text that differ; `[secret]`, `[unknown]` for values
   * that only `up` has. Absent for `add`, and for added lines.
   */
  before: text.exactOptional(),
  /** Absent for `delete`, and for removed lines. */
  after: text.exactOptional(),
  /** Null for creations and deletions. */
  effect: z.enum(["update", "replace", "may-replace"]).nullable(),
});

/** A changed resource. */
const resourceChange = z.strictObject({
  kind: z.enum(changeKinds),
  /** `kubernetes:apps/v1:Deployment` */
  type: name,
  /** Name of the resource in the program. */
  name,
  urn: text,
  /** `Deployment engine-room/llava`, as people find it; else the name in the program. */
  label: text,
  /** Sorted by path. */
  properties: z.array(propertyDifference),
  /** Inputs with secrets masked; null for a new resource. */
  before: z.record(z.string(), z.unknown()).nullable(),
  /** Null for a deleted resource. */
  after: z.record(z.string(), z.unknown()).nullable(),
  /** `protect`, `retainOnDelete`; null for neither. */
  kept: z.enum(["protected", "retained"]).nullable(),
  /** Whether a replaced resource is deleted before the new resource exists; null for other changes. */
  deletedFirst: z.boolean().nullable(),
});

/** Change of a secret in the stack file; encrypting the same value again counts as an update. */
const secretChange = z.strictObject({
  /** `hub.token` */
  path: text,
  kind: z.enum(["add", "update", "delete"]),
});

/** Changed key of the stack file. Without a value if that may be a secret. */
const settingChange = z.strictObject({
  /** `policies.hourlyUsdCap`, `access.admins[…]`, `aws:profile`, `secretsprovider` */
  path: text,
  kind: z.enum(["add", "update", "delete"]),
  before: text.exactOptional(),
  after: text.exactOptional(),
});

const policyLevel = z.enum(["mandatory", "advisory", "off"]);

/** A policy whose level changes, by stack file or by the default of its tree's stack. */
const levelChange = z.strictObject({ policy: name, before: policyLevel, after: policyLevel });

/** A resource of both sides whose protection changes. */
const protectionChange = z.strictObject({
  label: text,
  option: z.enum(["protect", "retainOnDelete"]),
  /** Whether the head has it. */
  after: z.boolean(),
});

/** A changed version of a provider, or of the SDK. */
const providerChange = z.strictObject({
  /** `aws`; `@pulumi/pulumi`, which runs the program and creates no resource. */
  provider: name,
  before: name,
  after: name,
  /** Number of the head's resources by type, such as `aws:eks/cluster:Cluster`; the most frequent first. */
  resources: z.array(z.strictObject({ type: name, count: z.int().min(1) })),
});

/** A rule that the stack breaks, and its level for this stack. */
const policyViolation = z.strictObject({
  /** `engine-store-is-protected` */
  policy: name,
  level: z.enum(["advisory", "mandatory"]),
  /** A label; else a URN. Null for the stack as a whole. */
  resource: text.nullable(),
  /** Reason, with the numbers that decide. */
  reason: text,
  fix: text,
  /** Whether the base does not break it; null when the base could not be checked. */
  isNew: z.boolean().nullable(),
});

/** Null when these tenants do not share a GPU of the pool. */
const fit = z
  .strictObject({
    gpu: name,
    verdict: z.enum(["fits", "tight", "doesNotFit"]),
    needGiB: z.number(),
    capacityGiB: z.number(),
  })
  .nullable();

/** An engine that a model starts or stops to need. */
const engineNeed = z.strictObject({
  /** Name of the model in the stack. */
  model: name,
  /** `llava-1.5-7b/3f9a…`, as in the engine store. */
  engine: name,
  /** Whether the other plan has an engine with the same key: nothing is built, or nothing becomes unused. */
  elsewhere: z.boolean(),
});

/** US dollars. `usd` is null if no part has a price, and a lower bound if only some do. */
const amount = z.strictObject({ usd: z.number().nullable(), isAtLeast: z.boolean() });

const costLine = z.strictObject({ arithmetic: text, hourlyUsd: z.number().nullable() }).nullable();

const machines = z.strictObject({ count: z.int().min(0), types: z.array(name) }).nullable();

/**
 * Everything is sorted by name. All parts except `engines.unchanged`, `servers` and `pricesAsOf` have only differences.
 */
const planDifferences = z.strictObject({
  engines: z.strictObject({
    added: z.array(engineNeed),
    removed: z.array(engineNeed),
    /** With every field of the key that changed. */
    rebuilt: z.array(
      z.strictObject({
        model: name,
        before: name,
        after: name,
        reasons: z.array(
          z.strictObject({ field: text, before: text.nullable(), after: text.nullable(), sentence: text }),
        ),
      }),
    ),
    /** Names of models with the same engine in both plans. */
    unchanged: z.array(name),
  }),
  /** GPUs of all replicas count; of those that differ, the fullest is given. */
  fit: z.array(
    z.strictObject({
      pool: name,
      tenants: z.array(name),
      before: fit,
      after: fit,
      gpusBefore: z.int().min(0),
      gpusAfter: z.int().min(0),
    }),
  ),
  /** `before` is null without a plan. */
  cost: z.array(
    z.strictObject({
      what: z.enum(["hourlyUsd", "monthlyUsd", "asleepMonthlyUsd"]),
      before: amount.nullable(),
      after: amount,
    }),
  ),
  /** Changed lines of the cost; null when the other plan does not have the line. */
  costLines: z.array(z.strictObject({ what: name, before: costLine, after: costLine })),
  /** Date of the price table, ISO 8601; null when no price of a table was used. */
  pricesAsOf: z.iso.date().nullable(),
  /**
   * Machines that all replicas need at once, of pools whose number or type changes; null for an absent pool, or an
   * unknown number.
   */
  machines: z.array(z.strictObject({ pool: name, before: machines, after: machines })),
  /** Every model of the head. */
  servers: z.array(
    z.strictObject({
      model: name,
      pool: name,
      buildPool: name,
      gpus: z.int().min(0),
      pullSeconds: z.number(),
      startSeconds: z.number(),
      coldStartSeconds: z.number(),
      buildStopsServers: z.boolean(),
    }),
  ),
  /** Builds of engines that the earlier plan did not have, which this change pays once. Estimates. */
  newBuilds: z.array(
    z.strictObject({
      engine: name,
      seconds: z.number(),
      usd: z.number().nullable(),
      arithmetic: text.exactOptional(),
    }),
  ),
  /** Sum over `newBuilds` with a price. */
  newBuildUsd: z.number(),
  /** Null when the model was not served. */
  coldStarts: z.array(
    z.strictObject({
      model: name,
      beforeSeconds: z.number().nullable(),
      afterSeconds: z.number().nullable(),
    }),
  ),
  warnings: z.strictObject({ appeared: z.array(problem), gone: z.array(problem) }),
});

/** Effect of merging a change on one stack. Refuses other keys, and texts that are too long. */
const stackDiff = z.strictObject({
  stack: name,
  /** `rendered`: from the two trees' own programs; `pulumi-preview`: against the state, by the Pulumi CLI. */
  source: z.enum(["rendered", "pulumi-preview"]),
  /** The AWS account in the head's stack file; null without one. */
  account: name.nullable(),
  base: comparedTree,
  head: comparedTree,
  /** Sorted by kind (replace, may-replace, delete, update, create), then by URN. Null when one side has no graph. */
  resources: z.array(resourceChange).nullable(),
  /** Number of resources that do not change, components among them, as the Pulumi engine counts. */
  unchanged: z.int().min(0),
  /** Engines, memory, money, time to the first answer, advisories. Null when one side has no plan with these. */
  plan: planDifferences.nullable(),
  /** Changed secrets of the stack file, sorted by path: never their values. */
  secrets: z.array(secretChange),
  /** Other changed keys of the stack file, sorted by path. */
  settings: z.array(settingChange),
  /** Sorted by policy. */
  levels: z.array(levelChange),
  /** Sorted by label. From the rendered graphs, whatever `source` is. */
  protections: z.array(protectionChange),
  /** Sorted by name. From the rendered trees, whatever `source` is. */
  providers: z.array(providerChange),
  /** Violations of the head, by the stricter of both sides' levels, caps and stacks to retain. */
  violations: z.array(policyViolation),
  /** Policies of the stack that could not be applied to the head, which has no resource graph or no outputs. */
  uncheckedPolicies: z.array(policyViolation.pick({ policy: true, level: true })),
});

type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;
type DataOf<Schema extends z.ZodType> = DeepReadonly<z.infer<Schema>>;

export type ChangeKind = (typeof changeKinds)[number];
export type ComparedTree = DataOf<typeof comparedTree>;
export type PropertyDifference = DataOf<typeof propertyDifference>;
export type ResourceChange = DataOf<typeof resourceChange>;
export type SecretChange = DataOf<typeof secretChange>;
export type SettingChange = DataOf<typeof settingChange>;
export type LevelChange = DataOf<typeof levelChange>;
export type ProtectionChange = DataOf<typeof protectionChange>;
export type ProviderChange = DataOf<typeof providerChange>;
export type PolicyViolation = DataOf<typeof policyViolation>;
export type FitState = NonNullable<DataOf<typeof fit>>;
export type EngineNeed = DataOf<typeof engineNeed>;
export type Amount = DataOf<typeof amount>;
export type PlanDifferences = DataOf<typeof planDifferences>;
export type StackDiff = DataOf<typeof stackDiff>;

/** In the order of reports: possible losses first. */
export function sortedChanges(changes: readonly ResourceChange[]): readonly ResourceChange[] {
  const order = ({ kind }: ResourceChange) => changeKinds.indexOf(kind);
  return changes.toSorted((a, b) => order(a) - order(b) || (a.urn < b.urn ? -1 : 1));
}

/**
 * @param what - Where it is from, for the error.
 * @throws UserError if it is not the JSON of `npx engine-room diff`.
 */
export function parsedDiff(what: string, bytes: Buffer): StackDiff {
  try {
    return stackDiff.parse(JSON.parse(bytes.toString("utf8")));
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof z.ZodError)) throw error;
    throw new UserError(`${what} is not what \`npx engine-room diff\` writes.`);
  }
}
