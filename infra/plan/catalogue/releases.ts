/**
 * Container tags of nvcr.io/nvidia/tritonserver:YY.MM-trtllm-python-py3, oldest first.
 *
 * Versions, drivers and sizes are those of Triton's compatibility matrix, which begins with 24.04; the backend's branches
 * and tags say which files an image holds. Images before 25.01 hold none: from then on the Dockerfile copies scripts, all_models,
 * tools and examples to /app.
 *
 * https://github.com/triton-inference-server/server/blob/e1db8a603d863b1317ee859bdeea2be19959462e/docs/introduction/compatibility.md
 */
import type { TemplateRef } from "./templates.ts";
import type { Release } from "./types.ts";

/** @default runtimes - only `engine`. @default verified - true. */
type ReleaseRow = Omit<Release, "tag" | "endOfLife" | "templates" | "runtimes" | "verified"> & {
  readonly templates: TemplateRef | null;
} & Partial<Pick<Release, "runtimes" | "verified">>;

const ENGINE_REMOVED: Release["endOfLife"][number] = {
  runtime: "engine",
  statement:
    "TensorRT-LLM removed engine building and the Triton backend that runs engines from its main branch in July 2026; " +
    "this image still has both, and they get no further fixes.",
  source: "https://github.com/NVIDIA/TensorRT-LLM/pull/15907",
};
const MULTIMODAL_DEPRECATED: Release["endOfLife"][number] = {
  runtime: "multimodal",
  statement: "The multimodal model repository is deprecated; TensorRT-LLM 1.2 ends it.",
  source:
    "https://github.com/NVIDIA/TensorRT-LLM/blob/18f906aab05fd289810c5384b8b7ec85c9682389/triton_backend/all_models/multimodal/Deprecation_notice.md",
};
const FIRST_WITH_DEPRECATION = "25.12";

/** all_models/llmapi came with backend v0.19.0; the tag of 25.04, v0.18.2, lacks it. */
const both = ["engine", "llmapi"] as const;

/**
 * Before the matrix only TensorRT-LLM's version is published:
 * https://github.com/triton-inference-server/triton_cli/blob/7f448b2c0cec855fc5feaacd281cc3ddfa9552df/README.md
 */
const beforeMatrix = {
  tensorRtLlm: "0.8.0",
  tensorRt: null,
  cuda: null,
  minimumDriver: null,
  imageGB: null,
  // There is no branch r24.02 or r24.03.
  templates: "v0.8.0",
  backendCommit: "41fe3a6a9daa12c64403e084298c6169b07d489d",
} as const;

const openTemplates = { runtimes: both, templates: "v1.1.0", verified: false } as const;
const OPEN_TEMPLATES =
  "Whether its templates ask for prompt_embedding_table_data_type is open: those of 0.20.0 don't, those of 1.1.0 do. " +
  "It is planned as 1.1.0; a key that the image's template lacks is left out when the repository is filled.";

/** TensorRT-LLM 1.1. */
const release11 = {
  tensorRtLlm: "1.1.0",
  tensorRt: "10.13.3.9",
  cuda: "13.0.2.006",
  minimumDriver: "580.95.05",
  templates: "v1.1.0",
  runtimes: both,
} as const;

/** TensorRT-LLM 1.2: the branch's Dockerfile still copies all_models, and nothing says which engines they can run. */
const release12 = {
  tensorRt: "10.14.1.48",
  cuda: "13.1.0.036",
  minimumDriver: "590.44.01",
  templates: null,
  runtimes: ["llmapi"],
  verified: false,
  // The image's 1.107.3 lacks names that tensorrt_llm/serve/responses_utils.py imports, so that no model loads: seen by
  // https://github.com/triton-inference-server/tutorials in 26.03 and 26.07. The first that has them, with the same requirements.
  pythonUpgrades: [
    "openai==1.109.1 --hash=sha256:6bcaf57086cf59159b8e27447e4e7dd019db5d29a438072fbd49c290c7e65315",
  ],
} as const;
const OPEN_12 =
  "No template or converter of TensorRT-LLM 1.2 was read, so it is listed for `runtime: llmapi` only, whose repository " +
  "was not read at this version either.";

/**
 * Its all_models/llmapi takes text only: pictures came with TensorRT-LLM 1.3 (https://github.com/NVIDIA/TensorRT-LLM/pull/18381),
 * which no container up to 26.07 has. Its LLM API takes them: Popular_Models_Guide/Qwen2.5-VL of
 * https://github.com/triton-inference-server/tutorials serves the model in 26.07 with a model.py of its own.
 */
const release121 = { ...release12, tensorRtLlm: "1.2.1", hasLlmapiPictures: true } as const;

const rows = {
  "24.02": beforeMatrix,
  "24.03": beforeMatrix,
  "24.04": {
    tensorRtLlm: "0.9.0",
    tensorRt: "9.3.0.post12.dev1",
    cuda: "12.3.2.001",
    minimumDriver: "545.23.08",
    imageGB: 34,
    templates: "r24.04",
    backendCommit: "99bdff055a88399cdb06c3509b9fca63f336c505",
  },
  "24.05": {
    tensorRtLlm: "0.9.0",
    tensorRt: "10.0.1.6",
    cuda: "12.3.2.001",
    minimumDriver: "545.23.08",
    imageGB: 34,
    templates: "v0.9.0",
    backendCommit: "76464e9be06600f3979acad9c14857938a66ff9f",
  },
  "24.06": {
    tensorRtLlm: "0.10.0",
    tensorRt: "10.0.1",
    cuda: "12.4.0.041",
    minimumDriver: "550.54.14",
    imageGB: 31,
    templates: "v0.10.0",
    backendCommit: "b92bdd79b6c50fb67203b6064e73662163012fe3",
  },
  "24.07": {
    tensorRtLlm: "0.11.0",
    tensorRt: "10.1.0",
    cuda: "12.4.1.003",
    minimumDriver: "550.54.15",
    imageGB: 23,
    templates: "v0.11.0",
    backendCommit: "6791733e64fe7edd9eda7e0d804d0d04d30fb057",
  },
  "24.08": {
    tensorRtLlm: "0.12.0",
    tensorRt: "10.3.0",
    cuda: "12.5.1.007",
    minimumDriver: "555.42.06",
    imageGB: 21,
    templates: "v0.12.0",
    backendCommit: "9a78477873574098c32467f0fd8a9d3b4c243d9b",
    note: "The branch r24.08 is an older cut than the image; the tag v0.12.0 has its TensorRT version.",
  },
  "24.09": {
    tensorRtLlm: "0.13.0",
    tensorRt: "10.4.0",
    cuda: "12.5.1.007",
    minimumDriver: "555.42.06",
    imageGB: 21,
    templates: "v0.13.0",
    backendCommit: "f80395e67a464e229b6595acd8f9305b344a5d54",
    note: "The branch r24.09 is an older cut than the image; the tag v0.13.0 has its TensorRT version.",
  },
  "24.10": {
    tensorRtLlm: "0.14.0",
    tensorRt: "10.4.0",
    cuda: "12.5.1.007",
    minimumDriver: "555.42.06",
    imageGB: 23.3,
    templates: "v0.14.0",
    backendCommit: "9958c21167e1a8e6bbddafc09b284904aaf22ab1",
    note: "The branch r24.10 is an older cut than the image; the tag v0.14.0 has its TensorRT version.",
  },
  "24.11": {
    tensorRtLlm: "0.15.0",
    tensorRt: "10.6.0",
    cuda: "12.6.3",
    minimumDriver: "555.42.06",
    imageGB: 24.8,
    templates: "v0.15.0",
    backendCommit: "8534b1cfd341399e046f60ef63a7d6beb549070b",
  },
  "24.12": {
    tensorRtLlm: "0.16.0",
    tensorRt: "10.7.0",
    cuda: "12.6.3",
    minimumDriver: "560.35.05",
    imageGB: 22,
    templates: "v0.16.0",
    backendCommit: "ad209ced188cbae19c7041d968dd4e6d3800ece2",
  },
  "25.01": {
    tensorRtLlm: "0.17.0",
    tensorRt: "10.8.0.43",
    cuda: "12.8.0.038",
    minimumDriver: "570.86.10",
    imageGB: 30,
    templates: "v0.17.0",
  },
  "25.02": {
    tensorRtLlm: "0.17.0.post1",
    tensorRt: "10.8.0.43",
    cuda: "12.8.0.038",
    minimumDriver: "570.86.10",
    imageGB: 28,
    // The larger of the two candidates: what v0.17.0 lacks, its fill_template.py ignores.
    templates: "r25.02",
    note:
      "Its templates are those of the tag v0.17.0 or of the branch r25.02: TensorRT-LLM 0.17.0.post1 is the tag's, and both " +
      "Dockerfiles name the image's TensorRT. It is planned with r25.02's, which v0.17.0 accepts as well.",
  },
  "25.03": {
    tensorRtLlm: "0.18.0",
    tensorRt: "10.9.0.34",
    cuda: "12.8.1.012",
    minimumDriver: "570.124.06",
    imageGB: 28,
    templates: "r25.03",
  },
  "25.04": {
    tensorRtLlm: "0.18.2",
    tensorRt: "10.9.0.34",
    cuda: "12.8.1.012",
    minimumDriver: "570.124.06",
    imageGB: 17,
    templates: "v0.18.2",
    note:
      "The image was not built from the branch r25.04: its Dockerfile has TensorRT 10.8.0.43 and the PyTorch of 25.01, " +
      "the image has 10.9.0.34 and that of 25.03, as the tag v0.18.2.",
  },
  "25.05": {
    tensorRtLlm: "0.19.0",
    tensorRt: "10.9.0.34",
    cuda: "12.8.1.012",
    minimumDriver: "570.124.06",
    imageGB: 17,
    templates: "v0.19.0",
    // `engine` only: the image has all_models/llmapi, but the keys of its model.yaml were not read.
    note:
      "The image has /app/examples/llama, as the tag v0.19.0 and other than the branch r25.05: " +
      "https://github.com/NVIDIA/TensorRT-LLM/issues/4275#issuecomment-2941155249.",
  },
  "25.06": {
    tensorRtLlm: "0.20.0",
    tensorRt: "10.10.0.31",
    cuda: "12.9.0.036",
    minimumDriver: "575.51.03",
    imageGB: 18.3,
    templates: "v0.20.0",
    runtimes: both,
  },
  "25.07": {
    tensorRtLlm: "0.20.0",
    tensorRt: "10.10.0.31",
    cuda: "12.9.0.036",
    minimumDriver: "575.51.03",
    imageGB: 18.3,
    templates: "v0.20.0",
    runtimes: both,
  },
  "25.08": {
    ...openTemplates,
    tensorRtLlm: "0.21.0",
    tensorRt: "10.11.0.33",
    cuda: "12.9.0.043",
    minimumDriver: "575.51.03",
    imageGB: 20.49,
    note: OPEN_TEMPLATES,
  },
  "25.09": {
    ...openTemplates,
    tensorRtLlm: "1.0.0",
    tensorRt: "10.11.0.33",
    cuda: "12.9.1.010",
    minimumDriver: "575.57.08",
    imageGB: 16.25,
    note: OPEN_TEMPLATES,
  },
  "25.10": {
    ...openTemplates,
    tensorRtLlm: "1.0.0",
    tensorRt: "10.11.0.33",
    cuda: "12.9.1.010",
    minimumDriver: "575.57.08",
    imageGB: 16.21,
    note: OPEN_TEMPLATES,
  },
  "25.11": {
    ...openTemplates,
    tensorRtLlm: "1.0.3.2510",
    tensorRt: "10.13.3.9",
    cuda: "13.0.2.006",
    minimumDriver: "580.95.05",
    imageGB: 12.25,
    note: `The matrix names TensorRT-LLM 1.0.3.2510, the Dockerfile of r25.11 1.2.0rc2. ${OPEN_TEMPLATES}`,
  },
  "25.12": { ...release11, imageGB: 16.04 },
  "26.01": { ...release11, imageGB: 16.17 },
  "26.02": { ...release11, imageGB: 16.17 },
  "26.03": {
    ...release12,
    tensorRtLlm: "1.2.0",
    imageGB: 14.18,
    note: `The matrix names TensorRT-LLM 1.2.0, the Dockerfile of r26.03 1.2.0rc8. ${OPEN_12}`,
  },
  "26.04": { ...release121, imageGB: 14.22, note: OPEN_12 },
  "26.05": { ...release121, imageGB: 14.22, note: OPEN_12 },
  "26.06": { ...release121, imageGB: 14.24, note: OPEN_12 },
  "26.07": { ...release121, imageGB: 14.2, note: OPEN_12 },
} satisfies Record<string, ReleaseRow>;

export type ReleaseTag = keyof typeof rows;

/** Oldest first. */
export const RELEASE_TAGS = Object.keys(rows) as unknown as readonly [ReleaseTag, ...ReleaseTag[]];

export const DEFAULT_RELEASE: ReleaseTag = "25.07";

export const releases = Object.fromEntries(
  Object.entries<ReleaseRow>(rows).map(([tag, row]): [string, Release] => {
    const runtimes: Release["runtimes"] = row.runtimes ?? ["engine"];
    const endOfLife = [
      ...(runtimes.includes("engine") ? [ENGINE_REMOVED] : []),
      ...(tag < FIRST_WITH_DEPRECATION ? [] : [MULTIMODAL_DEPRECATED]),
    ];
    return [tag, { tag, verified: true, endOfLife, ...row, runtimes }];
  }),
) as Readonly<Record<ReleaseTag, Release & { readonly tag: ReleaseTag }>>;

/** Whether the catalogue has a row for a tag. */
export function isReleaseTag(tag: string): tag is ReleaseTag {
  return Object.hasOwn(releases, tag);
}

/**
 * Negative when `a` is the older version of TensorRT-LLM. `1.3.0rc2` comes before `1.3.0`, `0.17.0.post1` after `0.17.0`; missing
 * parts are 0.
 *
 * @throws RangeError for a text that is not a version of TensorRT-LLM.
 */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [versionParts(a), versionParts(b)];
  const index = left.findIndex((part, position) => part !== right[position]);
  return index === -1 ? 0 : (left[index] ?? 0) - (right[index] ?? 0);
}

/** By version: a plan of many models compares the same few again and again. */
const known = new Map<string, readonly number[]>();

/** Four numbers, and one that is negative for a release candidate and positive for a post-release. */
function versionParts(version: string): readonly number[] {
  const found = known.get(version);
  if (found !== undefined) return found;
  const [text, numbers = "", candidate, post = 0] =
    /^(\d+(?:\.\d+){0,3})(?:rc(\d+))?(?:\.post(\d+))?$/.exec(version) ?? [];
  if (text === undefined)
    throw new RangeError(`${version} is not a version of TensorRT-LLM, such as 0.20.0 or 1.3.0rc2.`);
  const suffix = candidate === undefined ? Number(post) : Number(candidate) - Number.MAX_SAFE_INTEGER;
  const parts = [...`${numbers}.0.0.0`.split(".").slice(0, 4).map(Number), suffix];
  known.set(version, parts);
  return parts;
}

/**
 * Whether `runtime: llmapi` follows temperature, top-p and top-k. Before TensorRT-LLM 1.1 the PyTorch backend takes the most probable
 * token by default, whatever a request says: https://github.com/NVIDIA/TensorRT-LLM/pull/6451 and 7294, which ended it.
 */
export function llmapiSamples({ tensorRtLlm }: Release): boolean {
  return compareVersions(tensorRtLlm, "1.1.0") >= 0;
}
