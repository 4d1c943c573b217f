/** Sources and folders of weights, and the steps that fetch them. Credentials are the environment's: none is in argv. */
import { compareVersions } from "../catalogue/releases.ts";
import type { LanguageModel } from "../catalogue/types.ts";
import { visionTypeOf } from "../catalogue/vision-types.ts";
import type { EngineSpec, WeightsSource } from "../spec.ts";
import { commandLine, type StepDraft } from "./build-steps.ts";

/**
 * Its successor `hf` replaced it in huggingface_hub 1.0; all releases that build engines have transformers 4
 * (NVIDIA/TensorRT-LLM requirements.txt), which requires huggingface_hub below 1.0.
 */
const HUB_CLIENT = "huggingface-cli";

/** Not in NVIDIA's images; versions that the package index has. */
const MODELSCOPE_PACKAGE = "modelscope==1.40.2";
const AWS_CLI_PACKAGE = "awscli==1.46.2";

/** The source in a key. No key depends on a folder's path: its `revision` stands for the content. */
export function weightsIdentity(weights: WeightsSource): string {
  switch (weights.kind) {
    case "hub":
      return weights.repository;
    case "modelscope":
      return `modelscope:${weights.repository}`;
    case "s3":
      return weights.uri;
    case "folder":
      return "folder";
  }
}

/** Whether a folder is in the engine store, which every pod and container has in the same place. */
export function isInStore(path: string): boolean {
  return path.startsWith("/store/");
}

/**
 * Folder of the weights: `/store/weights/<model>/<revision>`, or the user's own. Other sources than the hub are marked,
 * because their revisions are the user's words and may be equal.
 */
export function weightsDirectory(model: string, weights: WeightsSource): string {
  if (weights.kind === "folder") return weights.path;
  const revision = weights.revision.replace(/[^A-Za-z0-9._-]/g, "-");
  return `/store/weights/${model}/${weights.kind === "hub" ? "" : `${weights.kind}-`}${revision}`;
}

/** Folder of the tokenizer of weights that are in the folder `weights`. */
export function tokenizerDirectory(row: Pick<LanguageModel, "vision">, weights: string): string {
  const folder = visionTypeOf(row)?.tokenizerFolder;
  return folder === undefined ? weights : `${weights}/${folder}`;
}

/** Commands that fetch the weights into a folder; none for the user's own. Each resumes a killed one. */
export function downloadSteps(
  { row, weights, release }: Pick<EngineSpec, "row" | "weights" | "release">,
  directory: string,
): readonly StepDraft[] {
  const { downloadGB, exclude = [], gated, include } = row.source;
  const patterns = [
    ...(include.length === 0 ? [] : ["--include", ...include]),
    ...(exclude.length === 0 ? [] : ["--exclude", ...exclude]),
  ];
  const download = (source: string, argv: readonly string[]): StepDraft => ({
    name: "download",
    summary: `${downloadGB} GB of weights from ${source}`,
    argv,
  });
  const install = (summary: string, pinned: string): StepDraft => ({
    name: "requirements",
    summary,
    argv: ["pip", "install", pinned],
  });
  switch (weights.kind) {
    case "hub": {
      const argv = commandLine(
        `${HUB_CLIENT} download`,
        [weights.repository, "--revision", weights.revision, ...patterns],
        `--local-dir ${directory}`,
        // Until huggingface_hub 0.23.0 links into its cache were the default.
        compareVersions(release.tensorRtLlm, "0.10") < 0 && "--local-dir-use-symlinks False",
      );
      return [download(`the Hugging Face hub${gated ? "; HF_TOKEN must hold a token" : ""}`, argv)];
    }
    case "modelscope": {
      const argv = commandLine(
        "modelscope download --model",
        [weights.repository, "--revision", weights.revision, ...patterns],
        `--local_dir ${directory}`,
      );
      return [install("ModelScope's client", MODELSCOPE_PACKAGE), download("ModelScope", argv)];
    }
    case "s3": {
      // The last filter that matches a file decides: all are left out, some are taken, and of those some left out.
      const argv = commandLine("aws s3 sync", [weights.uri], `${directory} --no-progress`, [
        ...(include.length === 0 ? [] : ["--exclude", "*"]),
        ...include.flatMap((glob) => ["--include", glob]),
        ...exclude.flatMap((glob) => ["--exclude", glob]),
      ]);
      return [
        install("the AWS CLI", AWS_CLI_PACKAGE),
        download("S3, with the credentials of the pod or machine", argv),
      ];
    }
    case "folder":
      return [];
  }
}

/** The commands of a source that is not a hub, for a builder that fetches from hubs by itself. */
export function fetchCommands(
  spec: Pick<EngineSpec, "model" | "row" | "weights" | "release">,
): readonly (readonly string[])[] {
  if (spec.weights.kind !== "s3") return [];
  return downloadSteps(spec, weightsDirectory(spec.model, spec.weights)).map(({ argv }) => argv);
}
