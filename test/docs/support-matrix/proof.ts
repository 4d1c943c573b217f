/** Texts of docs/support-matrix.md from records of proof/: the model that was run, its GPU, release and date. */
import type { GpuName } from "../../../infra/plan/catalogue/gpus.ts";
import { type LanguageModelName, languageModels } from "../../../infra/plan/catalogue/language-models.ts";
import { RELEASE_TAGS, type ReleaseTag } from "../../../infra/plan/catalogue/releases.ts";
import type { Flavour } from "../../../infra/plan/catalogue/types.ts";
import { type EncodersProof, type ModelProof, type Proof, provesGpu } from "../../../scripts/verify/proof.ts";

/** A level of docs/proof.md, in words. */
const RUN_ON_A_GPU = "**run on a GPU**";

interface Proven<T> {
  readonly gpu: GpuName;
  readonly release: ReleaseTag;
  readonly record: T;
}

/**
 * Addition to the cell of a model and a GPU; empty if no record raises it. A cell is about the catalogue's own number
 * format on whole GPUs, so that other records are only in {@link provenRows}.
 */
export function provenCell(
  proofs: readonly Proof[],
  model: LanguageModelName,
  gpu: string,
  release: ReleaseTag,
): string {
  const found = provenModels(proofs).filter(
    (one) => one.gpu === gpu && one.release === release && one.record.model === model && isPlain(one.record),
  );
  return found
    .map(({ record }) => {
      const split = record.tensorParallel === 1 ? "" : `TP ${record.tensorParallel}, `;
      return `; ${RUN_ON_A_GPU} (${split}${record.run.date})`;
    })
    .join("");
}

/** `25.07 on A10G (2026-11-21)`, by release; a dash if nothing was run. */
export function provenReleases(proofs: readonly Proof[], model: LanguageModelName, flavour: Flavour): string {
  const found = provenModels(proofs).filter(
    ({ record }) => record.model === model && record.flavour === flavour,
  );
  const texts = RELEASE_TAGS.flatMap((tag) =>
    found
      .filter(({ release }) => release === tag)
      .map(({ gpu, record }) => `${tag} on ${gpu} (${record.run.date})`),
  );
  return texts.length === 0 ? "–" : [...new Set(texts)].join(", ");
}

export const PROVEN_TITLES = ["What", "How", "GPU", "Release", "Driver", "Date", "Commit"] as const;

/** A row for each record that shows something of a GPU. */
export function provenRows(proofs: readonly Proof[]): string[][] {
  return [
    ...provenModels(proofs).map((proven) => row(proven, proven.record.model, modelWords(proven.record))),
    ...provenEncoders(proofs).map((proven) => {
      const { vision, text, precision, migProfile } = proven.record;
      return row(proven, `${vision}, ${text}`, ["encoders", precision, ...optional(migProfile)].join(", "));
    }),
  ];
}

function row({ gpu, release, record }: Proven<ModelProof | EncodersProof>, what: string, how: string) {
  const { driver, date, commit, isModified } = record.run;
  const short = commit === null ? "?" : commit.slice(0, 12);
  return [what, how, gpu, release, driver, date, isModified ? `${short}, changed` : short];
}

function modelWords({
  runtime,
  flavour,
  dtype,
  quantization,
  tensorParallel,
  pipelineParallel,
  migProfile,
}: ModelProof): string {
  return [
    runtime === "llmapi" ? runtime : `${runtime}, ${flavour}`,
    quantization === "none" ? dtype : quantization,
    ...optional(tensorParallel > 1 ? `TP ${tensorParallel}` : null),
    ...optional(pipelineParallel > 1 ? `PP ${pipelineParallel}` : null),
    ...optional(migProfile),
  ].join(", ");
}

function optional(text: string | null): string[] {
  return text === null ? [] : [text];
}

/** True for a model in the catalogue's own format on whole GPUs, split at most over tensor ranks. */
function isPlain({ model, dtype, quantization, pipelineParallel, migProfile }: ModelProof): boolean {
  return (
    dtype === languageModels[model].dtype &&
    quantization === "none" &&
    pipelineParallel === 1 &&
    migProfile === null
  );
}

function provenModels(proofs: readonly Proof[]): Proven<ModelProof>[] {
  return proofs.flatMap(({ gpu, release, models }) =>
    models.filter(provesGpu).map((record) => ({ gpu, release, record })),
  );
}

function provenEncoders(proofs: readonly Proof[]): Proven<EncodersProof>[] {
  return proofs.flatMap(({ gpu, release, encoders }) =>
    encoders.filter(provesGpu).map((record) => ({ gpu, release, record })),
  );
}
