/**
 * proof/<gpu>-<release>.json: the checks that passed on one GPU. The record is public: it has no host, address, path or name that
 * a user chose, and its schema has no key for one.
 */

import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { z } from "zod";
import { TEXT_ENCODER_NAMES, VISION_ENCODER_NAMES } from "../../infra/plan/catalogue/encoders.ts";
import { GPU_NAMES, type GpuName } from "../../infra/plan/catalogue/gpus.ts";
import { LANGUAGE_MODELS } from "../../infra/plan/catalogue/language-models.ts";
import { isReleaseTag, RELEASE_TAGS, type ReleaseTag } from "../../infra/plan/catalogue/releases.ts";
import { DTYPES, FLAVOURS, QUANTIZATIONS, RUNTIMES } from "../../infra/plan/catalogue/types.ts";
import { hostPool, serverGpus } from "../../infra/plan/docker/docker-stack.ts";
import type { DockerGpuPlan } from "../../infra/plan/gpu-stack.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { formatPath } from "../../infra/problems.ts";
import { SKIP_REASONS, type SkipReason } from "../ask/golden.ts";
import { UserError } from "../errors.ts";
import { catalogueName } from "../preflight/gpu.ts";
import type { HostProbe } from "../preflight/host-probe.ts";
import { readMachine } from "../preflight/machine-facts.ts";
import { ENCODER_CHECKS, type EncoderCheckName, LEVELS, MODEL_CHECKS, type ModelCheckName } from "./check.ts";
import type { Verified } from "./verify-stack.ts";

const checksSchema = <Name extends string>(names: readonly [Name, ...Name[]]) =>
  z
    .array(
      z.strictObject({
        name: z.enum(names),
        level: z.enum(LEVELS),
        outcome: z.enum(["passed", "failed", "skipped"]),
        reason: z.enum(keysOf(SKIP_REASONS)).optional(),
        figures: z.record(z.string().regex(/^[a-z][A-Za-z]{0,40}$/), z.number()),
      }),
    )
    .min(1);

/** Date and environment of a run: stacks on the same GPU and release may have different values. */
const runSchema = z.strictObject({
  date: z.iso.date(),
  /** Format of nvidia-smi. */
  driver: z.string().regex(/^\d+(\.\d+){1,2}$/),
  /** Commit of this project; null without a clone. */
  commit: z
    .string()
    .regex(/^[0-9a-f]{40}$/)
    .nullable(),
  /** Whether files differed from that commit. */
  isModified: z.boolean(),
});

/** Null for the whole GPU. */
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
  migProfile,
  /** Null when served without an engine. */
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

const proofSchema = z.strictObject({
  version: z.literal(1),
  gpu: z.enum(GPU_NAMES),
  release: z.enum(RELEASE_TAGS),
  tensorRtLlm: z.string().regex(/^\d[\w.]{0,20}$/),
  models: z.array(modelSchema),
  encoders: z.array(encodersSchema),
});

export type Proof = z.infer<typeof proofSchema>;
export type ModelProof = Proof["models"][number];
export type EncodersProof = Proof["encoders"][number];

export const PROOF_FOLDER = "proof";

/** `a100-sxm4-80gb-25.07.json`. */
export function proofFileName(gpu: GpuName, release: ReleaseTag): string {
  return `${gpu.toLowerCase().replaceAll(" ", "-")}-${release}.json`;
}

/** @param source - Name for errors. @throws UserError with all problems, each with its path. */
export function parseProof(text: string, source: string): Proof {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new UserError(`${source} is not JSON: ${(error as Error).message}.`);
  }
  const { success, data, error } = proofSchema.safeParse(json);
  if (success) return data;
  const lines = error.issues.map(
    ({ path, message }) => `  ${path.length === 0 ? "(file)" : formatPath(path)}: ${message}`,
  );
  throw new UserError(
    `${source} is not a proof file that this version reads; \`npx engine-room verify\` writes one.\n${lines.join("\n")}`,
  );
}

/**
 * Reads the file that a run will be added to; undefined for a new file.
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

export function writeProof(path: string, proof: Proof): void {
  // The written file has to be readable, whatever the caller passed.
  const checked = parseProof(JSON.stringify(proof), basename(path));
  mkdirSync(dirname(path), { recursive: true });
  const temporary = `${path}.new`;
  writeFileSync(temporary, `${JSON.stringify(checked, null, 2)}\n`);
  renameSync(temporary, path);
}

/**
 * Adds a run to the earlier proof: models and encoders of the same kind are replaced, whatever their results. For two
 * servers of one kind in the same run, the server that passed less represents both.
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
  // The last of each kind stays.
  const worstLast = [...run].sort((left, right) => Number(provesGpu(right)) - Number(provesGpu(left)));
  for (const record of worstLast) byKind.set(identity(record), record);
  return [...byKind].sort(([left], [right]) => (left < right ? -1 : 1)).map(([, record]) => record);
}

/** Two records of the same identity are about the same model or encoders. */
function identity({ run: _run, checks: _checks, ...kind }: ModelProof | EncodersProof): string {
  return JSON.stringify({ ...kind, engineKey: undefined });
}

/**
 * Checks that a model must have passed on a GPU before it is listed; in brackets the permitted reasons for a skip.
 * Times are measured, not judged.
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

/**
 * Whether a record shows that its model, or its encoders, ran on the GPU: no check failed, and no required check is
 * missing.
 */
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

/** Subject of a record: the GPU of the plan, or nothing, with the reason as half a sentence. */
export type Seen =
  | {
      readonly kind: "gpu";
      readonly plan: DockerGpuPlan;
      readonly gpu: GpuName;
      readonly release: ReleaseTag;
      /** `575.57.08`. */
      readonly driver: string;
    }
  | { readonly kind: "none"; readonly reason: string };

/**
 * The GPU that the plan is for, if all GPUs of its servers are of that kind. @param probe - Probe of the stack's
 * host; null without a host.
 */
export async function seenGpu(plan: StackPlan, probe: HostProbe | null): Promise<Seen> {
  const none = (reason: string): Seen => ({ kind: "none", reason });
  if (plan.tier === "cpu") return none("the stack runs on a CPU");
  if (plan.platform !== "docker" || probe === null)
    return none(`the GPUs of a stack on ${plan.platform} can't be asked from here`);
  const { tag } = plan.release;
  if (!isReleaseTag(tag)) return none(`the release ${tag} is not in the catalogue`);
  const machine = await readMachine(probe, []);
  if ("unreachable" in machine) return none(`the host can't be asked for its GPU (${machine.unreachable})`);
  if (machine.gpus === null) return none(`nvidia-smi shows no GPU of the host (${machine.gpuWords})`);
  const planned = hostPool(plan).gpu?.name;
  const indices = new Set(serverGpus(plan).flatMap((server) => server.indices));
  const used = machine.gpus.filter(({ index }) => indices.has(index));
  const other = used.find(({ name }) => catalogueName(name) !== planned);
  if (other !== undefined) return none(`the host has ${other.name}, and the plan is for ${planned}`);
  const [first] = used;
  const gpu = first === undefined ? undefined : catalogueName(first.name);
  if (first === undefined || gpu === undefined || used.length < indices.size)
    return none(`the host has ${machine.gpus.length} GPUs, and the plan uses ${indices.size}`);
  return { kind: "gpu", plan, gpu, release: tag, driver: first.driver };
}

/** Returns the record of one run, without models and encoders that the stack file adds to the catalogue: they are private. */
export function proofOf(
  { plan, gpu, release }: Extract<Seen, { kind: "gpu" }>,
  verified: readonly Verified[],
  run: ModelProof["run"],
): Proof {
  const { sharing } = hostPool(plan);
  const migProfile = sharing.mode === "mig" ? sharing.profile : null;
  const models: ModelProof[] = [];
  const encoders: EncodersProof[] = [];
  for (const one of verified) {
    if (one.kind === "encoders") {
      if (plan.spec.encoders === null) continue;
      const { device, precision, ...names } = plan.spec.encoders;
      const vision = VISION_ENCODER_NAMES.find((name) => name === names.vision);
      const text = TEXT_ENCODER_NAMES.find((name) => name === names.text);
      if (vision === undefined || text === undefined) continue;
      const checks = one.results.map(({ record }) => record);
      encoders.push({ vision, text, device, precision, migProfile, run, checks });
      continue;
    }
    const planned = plan.models.find(({ name }) => name === one.name);
    const model = LANGUAGE_MODELS.find((name) => name === planned?.spec.engine.model);
    if (planned === undefined || model === undefined) continue;
    const { runtime, flavour } = planned.spec.serving;
    const { dtype, quantization, tensorParallel, pipelineParallel } = planned.spec.engine;
    models.push({
      ...{ model, runtime, flavour, dtype, quantization, tensorParallel, pipelineParallel, migProfile },
      engineKey: planned.engine?.key ?? null,
      run,
      checks: one.results.map(({ record }) => record),
    });
  }
  return { version: 1, gpu, release, tensorRtLlm: plan.release.tensorRtLlm, models, encoders };
}
