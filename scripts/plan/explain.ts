/** The commands behind a plan, as a person would type them: nothing happens on a GPU that can't be read here. */
import { buildGenerateRequest, RequestError, wrapQuestion } from "@engine-room/triton-requests";
import { goldenPictures } from "../../infra/plan/catalogue/language-models.ts";
import type { GoldenPicture } from "../../infra/plan/catalogue/types.ts";
import { type EncoderPlan, towerName } from "../../infra/plan/encoders/encoder-plan.ts";
import { gpuIdentity } from "../../infra/plan/engine/engine-plan.ts";
import type { RepositoryClone } from "../../infra/plan/engine/release.ts";
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import { downloadSteps, isInStore, weightsDirectory } from "../../infra/plan/engine/weights.ts";
import type { GpuPlan, ModelPlan } from "../../infra/plan/gpu-stack.ts";
import { TRITON_PORTS, withExitTimeout } from "../../infra/plan/repository/launch.ts";
import type { RepositoryModel, RepositoryPlan } from "../../infra/plan/repository/repository-plan.ts";
import { PAGE_COLUMNS, wrapText } from "./text-table.ts";

/** Name under which `--explain` knows the encoders of a stack. */
const ENCODERS = "encoders";

/** A command without address answers here, inside the container and, with `--net host`, beside it. */
const SERVER = `http://localhost:${TRITON_PORTS.http}`;

interface ExplainOptions {
  /** Folder of the machine that keeps weights and engines. */
  readonly storePath: string;
}

interface Chapter {
  readonly title: string;
  readonly lines: readonly string[];
}

/** Names that {@link explain} knows, in the order of the stack file. */
export function explainableNames({ models, encoders }: GpuPlan): string[] {
  return [...models.map(({ name }) => name), ...(encoders === null ? [] : [ENCODERS])];
}

/**
 * Shell lines from an empty machine with the right GPU to the first answer, in one copy of which every path and number is
 * the plan's own.
 *
 * @param name - One of {@link explainableNames}; a model called `encoders` comes before the encoders.
 * @returns undefined for another name.
 */
export function explain(plan: GpuPlan, name: string, options: ExplainOptions): string | undefined {
  const model = plan.models.find((one) => one.name === name);
  if (model !== undefined) return explainModel(plan, model, options);
  if (plan.encoders === null || name !== ENCODERS) return undefined;
  return `${explainEncoders(plan.encoders).join("\n")}\n`;
}

/** Purpose and owner of each command of the encoders. */
const ENCODER_STEPS = {
  export:
    "downloads the files at their commit and writes the ONNX graph (encoder_builder is this project's own program)",
  calibrate:
    "measures ranges on samples and writes quantize and dequantize nodes (encoder_builder, likewise)",
  trtexec: "builds the plan (NVIDIA's own tool, part of the image)",
} as const;

/** NVIDIA's image lacks this project's own program. */
export function explainEncoders(plan: EncoderPlan): readonly string[] {
  const where = plan.gpu === null ? "on any machine" : `on a machine with the GPU that serves (${plan.gpu})`;
  return [
    `# Encoders ${plan.shortKey}: ${plan.precision}, in ${plan.image} with encoder_builder, ${where}.`,
    shellLine(["mkdir", "-p", ...plan.models.map(({ name }) => `${plan.directory}/${name}`)]),
    ...plan.models.flatMap((model) => [
      "",
      `# ${model.name}: ${model.encoder}, served by ${towerName(model.name)}.`,
      ...[model.export, ...model.steps].flatMap(({ name, argv }) => [
        `# ${name}: ${ENCODER_STEPS[name]}.`,
        shellLine(argv),
      ]),
    ]),
  ];
}

function explainModel(plan: GpuPlan, model: ModelPlan, options: ExplainOptions): string {
  const chapters = [
    containerChapter(plan, model, options),
    cloneChapter(model),
    ...buildChapters(model),
    repositoryChapter(model),
    launchChapter(model),
    requestChapter(model),
  ].filter(({ lines }) => lines.length > 0);
  const body = chapters.flatMap(({ title, lines }, index) => [
    "",
    ...comment(`${index + 1}. ${title}`),
    ...lines,
  ]);
  return `${[...comment(headline(plan, model)), ...body].join("\n")}\n`;
}

function headline({ release }: GpuPlan, { name, spec, engine }: ModelPlan): string {
  const what = engine === null ? `runtime ${spec.serving.runtime}, no engine` : `engine ${engine.shortKey}`;
  return `${name}: ${spec.engine.row.title} on ${release.tag} (TensorRT-LLM ${release.tensorRtLlm}), ${what} for ${gpuIdentity(spec.engine.target)}.`;
}

/** The image is started the same way to build and to serve: an engine only runs on the TensorRT that built it. */
function containerChapter(
  { release, spec: stack }: GpuPlan,
  { spec }: ModelPlan,
  { storePath }: ExplainOptions,
): Chapter {
  const driver = release.minimumDriver === null ? "" : ` and NVIDIA driver ${release.minimumDriver} or newer`;
  const gpus = spec.gpuIndices === undefined ? "all" : `"device=${spec.gpuIndices.join(",")}"`;
  const flags = [
    ...["--rm", "-it", "--net", "host", "--gpus", gpus],
    // MPI and Triton's Python models share memory; Docker's default is 64 MiB.
    ...["--shm-size=2g", "--ulimit", "memlock=-1", "--ulimit", "stack=67108864"],
    ...["--volume", `${storePath}:/store`],
    // A folder of the store is there already.
    ...(spec.engine.weights.kind === "folder" && !isInStore(spec.engine.weights.path)
      ? ["--volume", `${spec.engine.weights.path}:${spec.engine.weights.path}`]
      : []),
    ...secretVariables(spec.engine).flatMap((name) => ["--env", name]),
  ];
  return {
    title: `On a machine with ${gpuIdentity(spec.engine.target)}${driver}: the container that builds and serves.`,
    lines: [`${shellLine(["docker", "run", ...flags])} \\\n  ${shellLine([stack.image.base, "bash"])}`],
  };
}

/** Variables that Docker hands on from the shell, by name alone: no value is in a command line. */
function secretVariables({ weights, row }: ModelPlan["spec"]["engine"]): readonly string[] {
  if (weights.kind === "hub" && row.source.gated) return ["HF_TOKEN"];
  if (weights.kind === "s3")
    return ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"];
  return [];
}

function buildChapters({ spec, engine }: ModelPlan): Chapter[] {
  if (engine === null) {
    const weights = weightsDirectory(spec.engine.model, spec.engine.weights);
    return downloadSteps(spec.engine, weights).map(({ name, summary, argv }) => ({
      title: `In the container, ${name}: ${summary}.`,
      lines: [shellLine(argv)],
    }));
  }
  const { goldenImage } = engine.places;
  return engine.steps.map(({ name, summary, argv, environment }) => ({
    title: `In the container, ${name}: ${summary}.`,
    lines: [
      ...(argv.some((word) => word.endsWith(goldenImage)) ? pictureLines(spec, goldenImage) : []),
      shellLine(argv, environment),
    ],
  }));
}

/** This project's own image has the pictures; NVIDIA's does not. */
function pictureLines({ engine }: ModelPlan["spec"], path: string): string[] {
  const url = pictureUrl(engine.row.golden.image);
  return url === undefined ? [] : [shellLine(["curl", "-fsSL", url, "--create-dirs", "--output", path])];
}

function pictureUrl(image: GoldenPicture | undefined): string | undefined {
  return image === undefined ? undefined : goldenPictures[image];
}

/** This project's own image has these files, those of the tutorials with the patches of containers/trtllm/patches. */
function cloneChapter({ repository: { clones } }: ModelPlan): Chapter {
  return {
    title:
      "In the container: files that NVIDIA's image lacks; this project's image has them, patched where containers/trtllm/patches says so.",
    lines: clones.flatMap(cloneLines),
  };
}

function repositoryChapter({ repository }: ModelPlan): Chapter {
  return {
    title: "In the container: the model repository, every placeholder that it has and none besides.",
    lines: fillTemplateLines(repository),
  };
}

/**
 * Commands for bash that put a repository at its commit, which `git clone` can't. The submodule keeps binaries in LFS that only a
 * build of TensorRT-LLM itself reads.
 */
export function cloneLines({ url, commit, directory, submodule }: RepositoryClone): string[] {
  const git = (...words: readonly string[]) => line("git", "-C", directory, ...words);
  return [
    line("git", "init", directory),
    git("fetch", "--depth", "1", url, commit),
    git("checkout", "--detach", "FETCH_HEAD"),
    ...(submodule === undefined
      ? []
      : [`GIT_LFS_SKIP_SMUDGE=1 ${git("submodule", "update", "--init", "--depth", "1", submodule)}`]),
  ];
}

/** Templates whose folder of the version is missing, because Git keeps no empty folder. */
const WITHOUT_VERSION: ReadonlySet<string> = new Set(["multimodal/ensemble"]);

/**
 * Commands for bash, in order: a copy of each template, and one fill_template.py line for each folder with values. Typed in the
 * container they leave the repository that the plan describes.
 */
export function fillTemplateLines(plan: RepositoryPlan): string[] {
  return [line("mkdir", "-p", plan.path), ...plan.models.flatMap((model) => modelLines(plan, model))];
}

function modelLines(
  { allModels, fillTemplate, path }: RepositoryPlan,
  { name, template, templateRoot = allModels, substitutions, configFields = {}, files = {} }: RepositoryModel,
): string[] {
  const folder = `${path}/${name}`;
  const config = `${folder}/config.pbtxt`;
  return [
    line("cp", "-r", `${templateRoot}/${template}`, folder),
    ...(WITHOUT_VERSION.has(String(template)) ? [line("mkdir", "-p", `${folder}/1`)] : []),
    ...Object.entries(configFields).flatMap(([field, value]) => [
      line("sed", "-i", `/^${field}\\b/d`, config),
      `${line("echo", `${field}: ${value}`)} >> ${line(config)}`,
    ]),
    ...(Object.keys(substitutions).length === 0
      ? []
      : [line("python3", fillTemplate, "-i", config, fillTemplateArgument(substitutions))]),
    ...Object.entries(files).map(
      ([file, text]) => `${line("printf", "%s", text)} > ${line(`${folder}/${file}`)}`,
    ),
  ];
}

/**
 * The argument of fill_template.py: `key:value,key:value`. The script first splits at commas and takes one level of
 * backslashes away, then splits each part at colons and takes another: a colon needs two levels, a comma one. Before
 * TensorRT-LLM 0.16 it takes none away, and no value of a plan has a comma or colon then.
 * https://github.com/triton-inference-server/tensorrtllm_backend/blob/v0.16.0/tools/fill_template.py
 */
export function fillTemplateArgument(substitutions: Readonly<Record<string, string>>): string {
  return Object.entries(substitutions)
    .map(([key, value]) => escaped(`${key}:${escaped(value, ":")}`, ","))
    .join(",");
}

function escaped(text: string, delimiter: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll(delimiter, `\\${delimiter}`);
}

/** A command in one line, other than `shellLine`, which begins a line for each flag. */
function line(...words: readonly string[]): string {
  return words.map((word) => shellLine([word])).join(" ");
}

/** What the entry point of this project's image runs; here in the background, for the commands that follow. */
function launchChapter({ repository }: ModelPlan): Chapter {
  const { environment, mpirun, ranks } = withExitTimeout(repository.launch);
  const command =
    mpirun.length === 0
      ? ranks.flat()
      : [...mpirun, ...ranks.flatMap((argv, rank) => [...(rank === 0 ? [] : [":"]), "-n", "1", ...argv])];
  const count = ranks.length === 1 ? "one rank" : `${ranks.length} ranks`;
  return {
    title: `In the container: the server, ${count}; \`pkill tritonserver\` ends it.`,
    lines: [
      `${shellLine(command, environment)} &`,
      `until ${shellLine(["curl", "-sf", `${SERVER}/v2/health/ready`])}; do sleep 2; done`,
    ],
  };
}

function requestChapter(model: ModelPlan): Chapter {
  const { golden } = model.spec.engine.row;
  const answers = golden.answerContains.map((text) => JSON.stringify(text)).join(" or ");
  return {
    title: `A request; its answer holds ${answers} (upper and lower case alike).`,
    lines: requestLines(model),
  };
}

function requestLines({ request, spec, repository, engine }: ModelPlan): string[] {
  const { golden, vision } = spec.engine.row;
  const url = request.image === null ? undefined : pictureUrl(golden.image);
  const images = url === undefined ? [] : [url];
  const text = wrapQuestion(request, golden.prompt, images.length);
  try {
    const { path, headers, body } = buildGenerateRequest(request, {
      text,
      images,
      maxTokens: golden.maxTokens,
      temperature: 0,
    });
    const headerFlags = Object.entries(headers).flatMap(([name, value]) => ["--header", `${name}: ${value}`]);
    return [shellLine(["curl", "-sS", `${SERVER}${path}`, ...headerFlags, "--data", String(body)])];
  } catch (error) {
    if (!(error instanceof RequestError) || url === undefined || vision === undefined) throw error;
    // The images of these models only travel as tensors that the hub's processor made, so curl can't ask them.
    return [
      shellLine(
        [
          "python3",
          repository.fillTemplate.replace(/fill_template\.py$/, "multimodal/client.py"),
          "--model_type",
          vision.modelType,
          "--hf_model_dir",
          weightsDirectory(spec.engine.model, spec.engine.weights),
          "--text",
          text,
          "--image",
          url,
          "--request-output-len",
          String(golden.maxTokens),
        ],
        engine?.steps.find(({ name }) => name === "vision")?.environment,
      ),
    ];
  }
}

function comment(text: string): string[] {
  return wrapText(text, PAGE_COLUMNS - 2).map((line) => `# ${line}`);
}
