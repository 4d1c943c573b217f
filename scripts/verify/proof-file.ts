/**
 * proof/<gpu>-<release>.json: what one GPU was seen to do. A record for everybody: it has no host, address, path or name that
 * a user chose, and its schema leaves no room for one.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { TEXT_ENCODER_NAMES, VISION_ENCODER_NAMES } from "../../infra/plan/catalogue/encoders.ts";
import { GPU_NAMES, type GpuName } from "../../infra/plan/catalogue/gpus.ts";
import { LANGUAGE_MODELS } from "../../infra/plan/catalogue/language-models.ts";
import { RELEASE_TAGS, type ReleaseTag, releases } from "../../infra/plan/catalogue/releases.ts";
import { DTYPES, FLAVOURS, QUANTIZATIONS, RUNTIMES } from "../../infra/plan/catalogue/types.ts";
import { formatPath } from "../../infra/problems.ts";
import { UserError } from "../errors.ts";
import {
  ENCODER_CHECKS,
  type EncoderCheckName,
  LEVELS,
  MODEL_CHECKS,
  type ModelCheckName,
  SKIP_REASONS,
  type SkipReason,
} from "./check.ts";

function checksSchema<Name extends string>(names: readonly [Name, ...Name[]]) {
  const check = z
    .strictObject({
      name: z.enum(names),
      level: z.enum(LEVELS),
      outcome: z.enum(["passed", "failed", "skipped"]),
      reason: z.enum(keysOf(SKIP_REASONS)).optional(),
      figures: z.record(z.string().regex(/^[a-z][A-Za-z]{0,40}$/), z.number()),
    })
    .refine(({ outcome, reason }) => (outcome === "skipped") === (reason !== undefined), {
      message: "stands with what was skipped, and only there",
      path: ["reason"],
    });
  return z
    .array(check)
    .min(1)
    .refine((checks) => new Set(checks.map(({ name }) => name)).size === checks.length, {
      message: "has a check twice",
    });
}

/** When and with what it was run: stacks on the same GPU and release need not share it. */
const runSchema = z.strictObject({
  date: z.iso.date(),
  /** As nvidia-smi has it. */
  driver: z.string().regex(/^\d+(\.\d+){1,2}$/),
  /** Of this project; null where it is no clone. */
  commit: z
    .string()
    .regex(/^[0-9a-f]{40}$/)
    .nullable(),
  /** Whether files differed from that commit. */
  isModified: z.boolean(),
});

const migProfile = z
  .string()
  .regex(/^\d+g\.\d+gb$/)
  .nullable();

const modelSchema = z.strictObject({
  model: z.enum(LANGUAGE_MODELS),
  runtime: z.enum(RUNTIMES),
  flavour: z.enum(FLAVOURS),
  dtype: z.enum(DTYPES),
  quantization: z.enum(QUANTIZATIONS),
  tensorParallel: z.int().min(1),
  pipelineParallel: z.int().min(1),
  /** null: the whole GPU. */
  migProfile,
  /** null: served without an engine. */
  engineKey: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .nullable(),
  run: runSchema,
  checks: checksSchema(keysOf(MODEL_CHECKS)),
});

const encodersSchema = z.strictObject({
  vision: z.enum(VISION_ENCODER_NAMES),
  text: z.enum(TEXT_ENCODER_NAMES),
  device: z.enum(["cpu", "gpu"]),
  precision: z.enum(["fp32", "fp16", "int8"]),
  migProfile,
  run: runSchema,
  checks: checksSchema(keysOf(ENCODER_CHECKS)),
});

const proofSchema = z
  .strictObject({
    version: z.literal(1),
    gpu: z.enum(GPU_NAMES),
    release: z.enum(RELEASE_TAGS),
    tensorRtLlm: z.string(),
    models: z.array(modelSchema),
    encoders: z.array(encodersSchema),
  })
  .superRefine(({ release, tensorRtLlm, models, encoders }, context) => {
    const expected = releases[release]?.tensorRtLlm;
    if (expected !== undefined && tensorRtLlm !== expected) {
      context.addIssue({
        code: "custom",
        path: ["tensorRtLlm"],
        message: `is ${tensorRtLlm}; ${release} has ${expected}`,
      });
    }
    for (const [path, records] of Object.entries({ models, encoders })) {
      records.forEach((record, index) => {
        const first = records.findIndex((other) => identity(other) === identity(record));
        if (first !== index) {
          context.addIssue({
            code: "custom",
            path: [path, index],
            message: `is the same as ${path}[${first}]`,
          });
        }
      });
    }
  });

export type Proof = z.infer<typeof proofSchema>;
export type ModelProof = Proof["models"][number];
export type EncodersProof = Proof["encoders"][number];

export const PROOF_FOLDER = "proof";

/** `a100-sxm4-80gb-25.07.json`. */
export function proofFileName(gpu: GpuName, release: ReleaseTag): string {
  return `${gpu.toLowerCase().replaceAll(" ", "-")}-${release}.json`;
}

/** @param source - Named in errors. @throws UserError with all problems, each with its path. */
export function parseProof(text: string, source: string): Proof {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new UserError(`${source} is no JSON: ${(error as Error).message}.`);
  }
  const { success, data, error } = proofSchema.safeParse(json);
  if (success) return data;
  const lines = error.issues.map(
    ({ path, message }) => `  ${path.length === 0 ? "(file)" : formatPath(path)}: ${message}`,
  );
  throw new UserError(
    `${source} is no proof file that this version reads; \`npx engine-room verify\` writes one.\n${lines.join("\n")}`,
  );
}

/**
 * What is in the file that a run will be added to; undefined where there is none.
 * @throws UserError as {@link parseProof}, and for records of another GPU or release.
 */
export function readProofFor(path: string, gpu: GpuName, release: ReleaseTag): Proof | undefined {
  if (!existsSync(path)) return undefined;
  const proof = parseProof(readFileSync(path, "utf8"), path);
  if (proof.gpu === gpu && proof.release === release) return proof;
  throw new UserError(
    `${path} has records of ${proof.gpu} and ${proof.release}, and this stack runs on ${gpu} and ${release}; give another file with --out.`,
  );
}

/** All of a folder, by name. @throws UserError for one that can't be read, or has another's name. */
export function readProofs(folder: string): readonly Proof[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .sort()
    .map((name) => {
      const path = join(folder, name);
      const proof = parseProof(readFileSync(path, "utf8"), path);
      const expected = proofFileName(proof.gpu, proof.release);
      if (name === expected) return proof;
      throw new UserError(`${path} is about ${proof.gpu} and ${proof.release}; name it ${expected}.`);
    });
}

export function writeProof(path: string, proof: Proof): void {
  // What was written has to be readable, whatever the caller put into it.
  const checked = parseProof(JSON.stringify(proof), basename(path));
  mkdirSync(dirname(path), { recursive: true });
  const temporary = `${path}.new`;
  writeFileSync(temporary, `${JSON.stringify(checked, null, 2)}\n`);
  renameSync(temporary, path);
}

/**
 * A run added to what was there: models and encoders of the same kind are replaced, whatever came of them. Of two servers of
 * one kind in the same run, the one that shows less stands for both.
 */
export function mergedProof(before: Proof | undefined, run: Proof): Proof {
  return {
    ...run,
    models: merged(before?.models ?? [], run.models),
    encoders: merged(before?.encoders ?? [], run.encoders),
  };
}

function merged<T extends ModelProof | EncodersProof>(before: readonly T[], run: readonly T[]): T[] {
  const byKind = new Map(before.map((record) => [identity(record), record]));
  // The last of a kind stays.
  const worstLast = [...run].sort((left, right) => Number(provesGpu(right)) - Number(provesGpu(left)));
  for (const record of worstLast) byKind.set(identity(record), record);
  return [...byKind].sort(([left], [right]) => (left < right ? -1 : 1)).map(([, record]) => record);
}

/** What makes two records ones of the same thing. */
function identity(record: ModelProof | EncodersProof): string {
  const { run: _run, checks: _checks, ...kind } = record;
  return JSON.stringify({ ...kind, engineKey: undefined });
}

/**
 * What a model must have passed on a GPU before anything is said of it; in brackets why a check may have been skipped
 * instead. Times are measured, not judged.
 */
const REQUIRED: Readonly<Partial<Record<ModelCheckName, readonly SkipReason[]>>> = {
  "golden.triton": [],
  "golden.gateway": ["completesText"],
  streamed: ["doesNotStream"],
  batched: [],
  metrics: [],
};

const REQUIRED_OF_ENCODERS: Readonly<Partial<Record<EncoderCheckName, readonly SkipReason[]>>> = {
  similarities: [],
  captions: [],
  batched: ["batchOfOne"],
  ensemble: [],
  metrics: [],
};

/** Whether a record shows that its model, or its encoders, ran on the GPU: nothing failed, and nothing needed is missing. */
export function provesGpu(record: ModelProof | EncodersProof): boolean {
  const required = "model" in record ? REQUIRED : REQUIRED_OF_ENCODERS;
  if (record.checks.some(({ outcome }) => outcome === "failed")) return false;
  return Object.entries(required).every(([name, excuses]) => {
    const check = record.checks.find((one) => one.name === name);
    if (check === undefined || check.level !== "gpu") return false;
    return check.outcome === "passed" || (check.reason !== undefined && excuses.includes(check.reason));
  });
}

function keysOf<Key extends string>(table: Readonly<Record<Key, unknown>>): [Key, ...Key[]] {
  return Object.keys(table) as [Key, ...Key[]];
}
