/** Where weights come from and lie, and the steps that fetch them. Credentials are the environment's: none is in argv. */
import type { LanguageModel } from "../catalogue/types.ts";
import type { EngineSpec, WeightsSource } from "../spec.ts";
import type { RecipeTable } from "./recipes/types.ts";
import type { StepDraft } from "./step-draft.ts";

/**
 * The hub's client of the images. Its successor `hf` came with huggingface_hub 0.34 and replaced it in 1.0; all releases
 * that build engines have transformers 4 (NVIDIA/TensorRT-LLM requirements.txt), which wants a hub below 1.0.
 */
const HUB_CLIENT = "huggingface-cli";

/** Not in NVIDIA's images; versions that the package index has. */
const MODELSCOPE_PACKAGE = "modelscope==1.40.2";
const AWS_CLI_PACKAGE = "awscli==1.46.2";

/** What the key calls the source. A folder's path is the machine's business: its `revision` stands for the content. */
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
 * because their revisions are the user's words and need not be unlike.
 */
export function weightsDirectory(model: string, weights: WeightsSource): string {
  if (weights.kind === "folder") return weights.path;
  const revision = weights.revision.replace(/[^A-Za-z0-9._-]/g, "-");
  return `/store/weights/${model}/${weights.kind === "hub" ? "" : `${weights.kind}-`}${revision}`;
}

/**
 * Folder of the tokenizer of weights that lie in `weights`. VILA keeps one folder for each part, and transformers finds no
 * tokenizer at their root: `TOKENIZER_PATH` of NVIDIA/TensorRT-LLM
 * tests/integration/defs/triton_server/test_triton_llm.py, and run.py.
 */
export function tokenizerDirectory(row: Pick<LanguageModel, "vision">, weights: string): string {
  return row.vision?.modelType === "vila" ? `${weights}/llm` : weights;
}

/** Commands that fetch the weights; none for a folder. Each goes on where a killed one ended. */
export function downloadSteps(
  spec: Pick<EngineSpec, "row" | "weights">,
  table: Pick<RecipeTable, "hubLinksByDefault">,
): readonly StepDraft[] {
  const { row, weights } = spec;
  const fetched = `${row.source.downloadGB} GB`;
  switch (weights.kind) {
    case "hub":
      return [
        {
          name: "download",
          summary: `${fetched} of weights from the Hugging Face hub${row.source.gated ? "; HF_TOKEN must hold a token" : ""}`,
          words: [
            HUB_CLIENT,
            "download",
            weights.repository,
            "--revision",
            weights.revision,
            ...filePatterns(row),
            "--local-dir",
            { place: "weights" },
            ...(table.hubLinksByDefault ? ["--local-dir-use-symlinks", "False"] : []),
          ],
        },
      ];
    case "modelscope":
      return [
        {
          name: "requirements",
          summary: "ModelScope's client",
          words: ["pip", "install", MODELSCOPE_PACKAGE],
        },
        {
          name: "download",
          summary: `${fetched} of weights from ModelScope`,
          words: [
            "modelscope",
            "download",
            "--model",
            weights.repository,
            "--revision",
            weights.revision,
            ...filePatterns(row),
            "--local_dir",
            { place: "weights" },
          ],
        },
      ];
    case "s3":
      return [
        { name: "requirements", summary: "the AWS CLI", words: ["pip", "install", AWS_CLI_PACKAGE] },
        {
          name: "download",
          summary: `${fetched} of weights from S3, with the credentials of the pod or machine`,
          words: [
            ...["aws", "s3", "sync", weights.uri, { place: "weights" } as const, "--no-progress"],
            ...syncFilters(row),
          ],
        },
      ];
    case "folder":
      return [];
  }
}

/** The commands of a source that is no hub, for a builder that fetches from hubs by itself. */
export function fetchCommands(
  spec: Pick<EngineSpec, "model" | "row" | "weights">,
): readonly (readonly string[])[] {
  if (spec.weights.kind !== "s3") return [];
  const weights = weightsDirectory(spec.model, spec.weights);
  return downloadSteps(spec, { hubLinksByDefault: false }).map(({ words }) =>
    words.map((word) => (typeof word === "string" ? word : weights)),
  );
}

/** The last filter that matches a file decides: all are left out, some are taken, and of those some left out. */
function syncFilters({ source: { include, exclude = [] } }: LanguageModel): readonly string[] {
  const filters = (flag: string, patterns: readonly string[]) =>
    patterns.flatMap((pattern) => [flag, pattern]);
  return [
    ...(include.length === 0 ? [] : filters("--exclude", ["*"])),
    ...filters("--include", include),
    ...filters("--exclude", exclude),
  ];
}

function filePatterns(row: LanguageModel): readonly string[] {
  const { include, exclude = [] } = row.source;
  return [
    ...(include.length === 0 ? [] : ["--include", ...include]),
    ...(exclude.length === 0 ? [] : ["--exclude", ...exclude]),
  ];
}
