/** Commands of a plan, as a person would type them: all that happens on a GPU is listed here. */
import { buildGenerateRequest, RequestError, wrapQuestion } from "@engine-room/triton-requests";
import { goldenPictures } from "../../infra/plan/catalogue/language-models.ts";
import {
  modelRequirements,
  releaseRequirements,
  requirementLines,
} from "../../infra/plan/docker/python-packages.ts";
import { type EncoderPlan, towerName } from "../../infra/plan/encoders/encoder-plan.ts";
import { gpuIdentity } from "../../infra/plan/engine/engine-plan.ts";
import type { RepositoryClone } from "../../infra/plan/engine/release.ts";
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import { downloadSteps, isInStore, weightsDirectory } from "../../infra/plan/engine/weights.ts";
import type { GpuPlan, ModelPlan } from "../../infra/plan/gpu-stack.ts";
import { PYTHON_MODELS } from "../../infra/plan/repository/cpu-models.ts";
import { TRITON_PORTS, withExitTimeout } from "../../infra/plan/repository/launch.ts";
import type { RepositoryModel, RepositoryPlan } from "../../infra/plan/repository/repository-plan.ts";
import { unknownName } from "../errors.ts";
import { PAGE_COLUMNS, wrapText } from "./text-table.ts";

/** Name of a stack's encoders for `--explain`. */
const ENCODERS = "encoders";

/** A command without address answers here, inside the container and, with `--net host`, beside it. */
const SERVER = `http://localhost:${TRITON_PORTS.http}`;

type Chapter = readonly [title: string, lines: readonly string[]];

/**
 * Shell lines from an empty machine with the right GPU to the first answer, in one copy of which every path and number
 * is the plan's own.
 *
 * @param name - Name of a model, or `encoders`; a model of that name comes before the encoders.
 * @param storePath - Folder or volume of the machine that keeps weights and engines.
 * @throws UsageError for a name that the stack lacks.
 */
export function explain(plan: GpuPlan, name: string, storePath: string): string {
  const model = plan.models.find((each) => each.name === name);
  if (model !== undefined) return explainModel(plan, model, storePath);
  if (plan.encoders !== null && name === ENCODERS) return `${explainEncoders(plan.encoders).join("\n")}\n`;
  const names = [...plan.models.map((each) => each.name), ...(plan.encoders === null ? [] : [ENCODERS])];
  throw unknownName("model", name, names);
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

function explainModel(plan: GpuPlan, model: ModelPlan, storePath: string): string {
  const { release } = plan;
  const { name, spec, engine, repository } = model;
  const gpu = gpuIdentity(spec.engine.target);
  const built = engine === null ? `runtime ${spec.serving.runtime}, no engine` : `engine ${engine.shortKey}`;
  const driver = release.minimumDriver === null ? "" : ` and NVIDIA driver ${release.minimumDriver} or newer`;
  const { answerContains } = spec.engine.row.golden;
  const ranks = repository.launch.ranks.length;
  const chapters: readonly Chapter[] = [
    [
      `On a machine with ${gpu}${driver}: the container that builds and serves.`,
      [containerLine(plan, model, storePath)],
    ],
    // Those of the tutorials are patched by containers/trtllm/patches.
    [
      "In the container: files that NVIDIA's image lacks; this project's image has them, patched where containers/trtllm/patches says so.",
      repository.clones.flatMap(cloneLines),
    ],
    [
      "In the container: Python packages that this project's image has beside NVIDIA's.",
      packageLines(requirementLines([...releaseRequirements(release), ...modelRequirements(spec)])),
    ],
    ...buildChapters(model),
    [
      `In the container: the model repository: templates with the plan's values; other placeholders keep Triton's defaults.${
        repository.models.some(({ sources }) => sources !== undefined)
          ? ` This project's image has the files that are copied from ${IMAGE_MODELS}; their sources are in ${PYTHON_MODELS}.`
          : ""
      }`,
      fillTemplateLines(repository),
    ],
    [
      `In the container: the server, ${ranks === 1 ? "one rank" : `${ranks} ranks`}; \`pkill tritonserver\` ends it.`,
      launchLines(model),
    ],
    [
      `A request; its answer holds ${answerContains.map((text) => JSON.stringify(text)).join(" or ")} (upper and lower case alike).`,
      [requestLine(model)],
    ],
  ];
  const lines = chapters
    .filter(([, commands]) => commands.length > 0)
    .flatMap(([title, commands], index) => ["", ...comment(`${index + 1}. ${title}`), ...commands]);
  const headline = `${name}: ${spec.engine.row.title} on ${release.tag} (TensorRT-LLM ${release.tensorRtLlm}), ${built} for ${gpu}.`;
  return `${[...comment(headline), ...lines].join("\n")}\n`;
}

/** As containers/trtllm/Dockerfile installs them. */
function packageLines(requirements: readonly string[]): readonly string[] {
  const file = "/tmp/requirements.txt";
  const flags = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", file];
  const environment = { PIP_BREAK_SYSTEM_PACKAGES: "1", PIP_CONSTRAINT: "" };
  return requirements.length === 0
    ? []
    : [
        `${line("printf", "%s\\n", ...requirements)} > ${file}`,
        shellLine(["python3", "-m", "pip", "install", ...flags], environment),
      ];
}

/** The image is started the same way to build and to serve: an engine only runs on the TensorRT that built it. */
function containerLine({ spec: stack }: GpuPlan, { spec }: ModelPlan, storePath: string): string {
  const { weights } = spec.engine;
  const gpus = spec.gpuIndices === undefined ? "all" : `"device=${spec.gpuIndices.join(",")}"`;
  const flags = [
    ...["--rm", "-it", "--net", "host", "--gpus", gpus],
    // MPI and Triton's Python models share memory; Docker's default is 64 MiB.
    ...["--shm-size=2g", "--ulimit", "memlock=-1", "--ulimit", "stack=67108864"],
    ...["--volume", `${storePath}:/store`],
    // A folder of the store is mounted already.
    ...(weights.kind === "folder" && !isInStore(weights.path)
      ? ["--volume", `${weights.path}:${weights.path}`]
      : []),
    ...secretVariables(spec.engine).flatMap((name) => ["--env", name]),
  ];
  return `${shellLine(["docker", "run", ...flags])} \\\n  ${shellLine([stack.image.base, "bash"])}`;
}

/** Variables that Docker passes from the shell, only by name: no value is in a command line. */
function secretVariables({ weights, row }: ModelPlan["spec"]["engine"]): readonly string[] {
  if (weights.kind === "hub" && row.source.gated) return ["HF_TOKEN"];
  if (weights.kind === "s3")
    return ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"];
  return [];
}

function buildChapters({ spec, engine }: ModelPlan): Chapter[] {
  const weights = weightsDirectory(spec.engine.model, spec.engine.weights);
  const steps = engine?.steps ?? downloadSteps(spec.engine, weights);
  const path = engine?.places.goldenImage;
  const url = pictureUrl(spec);
  return steps.map(({ name, summary, argv, environment }) => {
    // This project's own image has the pictures; NVIDIA's does not.
    const needsPicture = path !== undefined && argv.some((word) => word.endsWith(path));
    const picture =
      needsPicture && url !== undefined
        ? [shellLine(["curl", "-fsSL", url, "--create-dirs", "--output", path])]
        : [];
    return [`In the container, ${name}: ${summary}.`, [...picture, shellLine(argv, environment)]];
  });
}

function pictureUrl({ engine }: ModelPlan["spec"]): string | undefined {
  const { image } = engine.row.golden;
  return image === undefined ? undefined : goldenPictures[image];
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

const IMAGE_MODELS = "/opt/engine-room/models";

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
  {
    name,
    template,
    templateRoot = allModels,
    substitutions,
    configFields = {},
    files: { "config.pbtxt": ownConfig, ...files } = {},
    sources = {},
  }: RepositoryModel,
): string[] {
  const folder = `${path}/${name}`;
  const config = `${folder}/config.pbtxt`;
  const written = (file: string, text: string) =>
    `${line("printf", "%s", text)} > ${line(`${folder}/${file}`)}`;
  return [
    line("cp", "-r", `${templateRoot}/${template}`, folder),
    ...(WITHOUT_VERSION.has(String(template)) ? [line("mkdir", "-p", `${folder}/1`)] : []),
    ...(ownConfig === undefined ? [] : [written("config.pbtxt", ownConfig)]),
    ...Object.entries(configFields).flatMap(([field, value]) => [
      line("sed", "-i", `/^${field}\\b/d`, config),
      `${line("echo", `${field}: ${value}`)} >> ${line(config)}`,
    ]),
    ...(Object.keys(substitutions).length === 0
      ? []
      : [line("python3", fillTemplate, "-i", config, fillTemplateArgument(substitutions))]),
    ...Object.entries(files).map(([file, text]) => written(file, text)),
    ...Object.entries(sources).flatMap(([file, source]) => [
      ...(file === "1/model.py" ? [line("mv", `${folder}/${file}`, `${folder}/1/template_model.py`)] : []),
      line("cp", `${IMAGE_MODELS}/${source}`, `${folder}/${file}`),
    ]),
  ];
}

/**
 * The argument of fill_template.py: `key:value,key:value`. The script first splits at commas and takes one level of
 * backslashes away, then splits each part at colons and takes another: a colon needs two levels, a comma one. Before
 * TensorRT-LLM 0.16 it takes none away, and no value of a plan has a comma or colon then.
 * https://github.com/triton-inference-server/tensorrtllm_backend/blob/v0.16.0/tools/fill_template.py
 */
export function fillTemplateArgument(substitutions: Readonly<Record<string, string>>): string {
  const escaped = (text: string, delimiter: string) =>
    text.replaceAll("\\", "\\\\").replaceAll(delimiter, `\\${delimiter}`);
  return Object.entries(substitutions)
    .map(([key, value]) => escaped(`${key}:${escaped(value, ":")}`, ","))
    .join(",");
}

/** A command in one line, other than `shellLine`, which begins a line for each flag. */
function line(...words: readonly string[]): string {
  return words.map((word) => shellLine([word])).join(" ");
}

/** Command of the image's entry point; here in the background, for the commands that follow. */
function launchLines({ repository }: ModelPlan): string[] {
  const { environment, mpirun, ranks } = withExitTimeout(repository.launch);
  const command =
    mpirun.length === 0
      ? ranks.flat()
      : [...mpirun, ...ranks.flatMap((argv, rank) => [...(rank === 0 ? [] : [":"]), "-n", "1", ...argv])];
  return [
    `${shellLine(command, environment)} &`,
    `until ${shellLine(["curl", "-sf", `${SERVER}/v2/health/ready`])}; do sleep 2; done`,
  ];
}

function requestLine({ request, spec, repository, engine }: ModelPlan): string {
  const { golden, vision } = spec.engine.row;
  const { maxTokens } = golden;
  const url = request.image === null ? undefined : pictureUrl(spec);
  const images = url === undefined ? [] : [url];
  const text = wrapQuestion(request, golden.prompt, images.length);
  try {
    const { path, headers, body } = buildGenerateRequest(request, {
      text,
      images,
      maxTokens,
      temperature: 0,
    });
    const headerFlags = Object.entries(headers).flatMap(([name, value]) => ["--header", `${name}: ${value}`]);
    return shellLine(["curl", "-sS", `${SERVER}${path}`, ...headerFlags, "--data", String(body)]);
  } catch (error) {
    if (!(error instanceof RequestError) || url === undefined || vision === undefined) throw error;
    // The images of these models only travel as tensors that the hub's processor made, so curl can't ask them.
    const client = repository.fillTemplate.replace(/fill_template\.py$/, "multimodal/client.py");
    const weights = weightsDirectory(spec.engine.model, spec.engine.weights);
    return shellLine(
      [
        ...["python3", client, "--model_type", vision.modelType, "--hf_model_dir", weights],
        ...["--text", text, "--image", url, "--request-output-len", String(maxTokens)],
      ],
      engine?.steps.find(({ name }) => name === "vision")?.environment,
    );
  }
}

function comment(text: string): string[] {
  return wrapText(text, PAGE_COLUMNS - 2).map((each) => `# ${each}`);
}
