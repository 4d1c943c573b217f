/**
 * docs/support-matrix.md, from the catalogue and the records of proof/. Every cell is a plan's result: of a stack with only
 * that model, on that release and GPU, and whether it was run.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Advisory, openAdvisories } from "../../../infra/plan/catalogue/advisories.ts";
import { gpus } from "../../../infra/plan/catalogue/gpus.ts";
import {
  LANGUAGE_MODELS,
  type LanguageModelName,
  languageModels,
} from "../../../infra/plan/catalogue/language-models.ts";
import { DEFAULT_RELEASE, RELEASE_TAGS, releases } from "../../../infra/plan/catalogue/releases.ts";
import type { Gpu, Release } from "../../../infra/plan/catalogue/types.ts";
import { figure } from "../../../scripts/plan/text-table.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { PROOF_FOLDER, type Proof, parseProof, proofFileName } from "../../../scripts/verify/proof.ts";
import { fitCell, GPUS_OF_MACHINE, NEWEST_RELEASE, releaseRanges, tagRanges } from "./cells.ts";
import { PROVEN_TITLES, provenCell, provenReleases, provenRows } from "./proof.ts";

export const SUPPORT_MATRIX_FILE = "docs/support-matrix.md";
const COMMAND =
  "UPDATE_RECORDED=1 npx vitest run --project unit test/docs/support-matrix/support-matrix.test.ts";

const SEVERITIES: readonly Advisory["severity"][] = ["critical", "high", "medium", "low"];

/** Records of a folder. @throws UserError for one that can't be read. */
export function readProofs(folder: string): readonly Proof[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .sort()
    .map((name) => {
      const proof = parseProof(readFileSync(join(folder, name), "utf8"), name);
      const expected = proofFileName(proof.gpu, proof.release);
      if (name === expected) return proof;
      throw new Error(`${name} is about ${proof.gpu} and ${proof.release}; name it ${expected}.`);
    });
}

/** Records of the project. */
export function committedProofs(): readonly Proof[] {
  return readProofs(join(projectRoot, PROOF_FOLDER));
}

/** Markdown with a final newline; the same catalogue and records, the same bytes. */
export function supportMatrix(proofs: readonly Proof[]): string {
  const lines = [
    "# What is supported",
    "",
    "Made from the catalogue and the records of [proof/](../proof/README.md) by",
    `\`${COMMAND}\`;`,
    "a test keeps it current. It says what the plan accepts, and what of it was run on a GPU. How far everything else is",
    "proven is in [proof.md](proof.md).",
    "",
    "## Models and GPUs",
    "",
    `One server of each model on release ${DEFAULT_RELEASE}, of models without an engine on ${NEWEST_RELEASE}, with the limits of the catalogue`,
    "and KV cache for a full batch. Memory is an estimate; *tight* is a need within its error of the capacity. *TP n*: the",
    `smallest tensor parallelism that fits, on a machine with ${GPUS_OF_MACHINE} of these GPUs. *Run on a GPU*: every check of \`npx engine-room verify\` passed there.`,
    "",
    ...markdownTable(
      ["Model", ...supportedGpus().map(gpuHeading)],
      LANGUAGE_MODELS.map((model) => fitRow(model, proofs)),
    ),
    "",
    ...unsupportedGpuLines(),
    "## Models and releases",
    "",
    "Releases that plan without a problem, by runtime and kind of model repository. Brackets: accepted with",
    "`acceptUnverified: true` only.",
    "",
    ...markdownTable(
      ["Model", "Runtime", "Repository", "Releases", "Run on a GPU"],
      LANGUAGE_MODELS.flatMap((model) => releaseRows(model, proofs)),
    ),
    "",
    "## Run on a GPU",
    "",
    ...provenLines(proofs),
    "",
    "## Releases",
    "",
    "Tags of `nvcr.io/nvidia/tritonserver:TAG-trtllm-python-py3`. Advisories: those that the tag still has, by severity;",
    "`npx engine-room plan --full` lists them, and [advisories.json](../infra/plan/catalogue/data/advisories.json) has their sources.",
    "",
    ...markdownTable(
      ["Tag", "TensorRT-LLM", "TensorRT", "CUDA", "Driver", "Image", "Runtimes", "Verified", "Advisories"],
      RELEASE_TAGS.map((tag) => releaseRow(releases[tag])),
    ),
    "",
    ...noteLines(),
    "### End of life",
    "",
    ...endOfLifeLines(),
    "## GPUs",
    "",
    ...markdownTable(
      ["GPU", "Architecture", "Compute capability", "Memory", "NVLink", "Formats", "MIG profiles"],
      Object.values<Gpu>(gpus).map(gpuRow),
    ),
  ];
  return `${lines.join("\n")}\n`;
}

function supportedGpus(): [string, Gpu][] {
  return Object.entries<Gpu>(gpus).filter(([, { supported }]) => supported);
}

function gpuHeading([name, { memoryGiB }]: readonly [string, Gpu]): string {
  return `${name} (${figure(memoryGiB, 1)} GiB)`;
}

function unsupportedGpuLines(): string[] {
  const names = Object.entries<Gpu>(gpus).flatMap(([name, { supported }]) => (supported ? [] : [name]));
  if (names.length === 0) return [];
  return [`TensorRT-LLM's support matrix does not list ${names.join(", ")}; the plan refuses them.`, ""];
}

function fitRow(model: LanguageModelName, proofs: readonly Proof[]): string[] {
  const cells = supportedGpus().map(
    ([gpu]) => fitCell(model, gpu) + provenCell(proofs, model, gpu, DEFAULT_RELEASE),
  );
  return [model, ...cells];
}

function provenLines(proofs: readonly Proof[]): string[] {
  const rows = provenRows(proofs);
  if (rows.length === 0)
    return ["Nothing yet. [proof/README.md](../proof/README.md) says how a record comes here."];
  return markdownTable(PROVEN_TITLES, rows);
}

function releaseRows(model: LanguageModelName, proofs: readonly Proof[]): string[][] {
  const { flavours } = languageModels[model];
  return flavours.map((flavour) => {
    const runtime = flavour === "llmapi" ? "llmapi" : "engine";
    const releases = releaseRanges(model, flavour);
    return [model, runtime, flavour, releases, provenReleases(proofs, model, flavour)];
  });
}

function releaseRow(release: Release): string[] {
  return [
    release.tag,
    release.tensorRtLlm,
    release.tensorRt ?? "?",
    release.cuda ?? "?",
    release.minimumDriver ?? "?",
    release.imageGB === null ? "?" : `${release.imageGB} GB`,
    release.runtimes.join(", "),
    release.verified ? "yes" : "no",
    severities(openAdvisories(release)),
  ];
}

/** `2 critical, 14 high`; the worst first. */
function severities(open: readonly Advisory[]): string {
  const counts = SEVERITIES.flatMap((severity) => {
    const count = open.filter((advisory) => advisory.severity === severity).length;
    return count === 0 ? [] : [`${count} ${severity}`];
  });
  return counts.length === 0 ? "none" : counts.join(", ");
}

/** Open points of releases, each statement once. */
function noteLines(): string[] {
  return bulletsByStatement(
    RELEASE_TAGS.flatMap((tag) => {
      const { note } = releases[tag] as Release;
      return note === undefined ? [] : [{ tag, statement: note }];
    }),
  );
}

function endOfLifeLines(): string[] {
  return bulletsByStatement(
    RELEASE_TAGS.flatMap((tag) =>
      releases[tag].endOfLife.map(({ runtime, statement, source }) => ({
        tag,
        statement: `${runtime}: ${statement} ([source](${source}))`,
      })),
    ),
  );
}

function bulletsByStatement(rows: readonly { readonly tag: string; readonly statement: string }[]): string[] {
  const tags = new Map<string, Set<string>>();
  for (const { tag, statement } of rows) tags.set(statement, new Set([...(tags.get(statement) ?? []), tag]));
  if (tags.size === 0) return [];
  return [...[...tags].map(([statement, of]) => `- ${tagRanges(of)}: ${statement}`), ""];
}

function gpuRow(gpu: Gpu): string[] {
  const profiles = Object.entries(gpu.migProfiles).map(([profile, gib]) => `${profile} (${gib} GiB)`);
  return [
    gpu.name,
    gpu.architecture,
    gpu.computeCapability,
    `${figure(gpu.memoryGiB, 2)} GiB`,
    gpu.nvlink ? "yes" : "no",
    gpu.formats.join(", "),
    profiles.length === 0 ? "none" : profiles.join(", "),
  ];
}

function markdownTable(titles: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(titles), `|${titles.map(() => "---").join("|")}|`, ...rows.map(line)];
}
