/** What is built, and how it is served. */
import type { GpuPlan, ModelPlan } from "../../infra/plan/gpu-stack.ts";
import { paragraph, type Section, textTable } from "./text-table.ts";

/** Every engine with its key and the steps that make it; models that share a key share the engine. */
export function engineSection({ models }: GpuPlan): Section {
  const rows = models.map(({ name, spec, engine }) => [
    name,
    engine?.shortKey ?? "no engine",
    gpuName(spec),
    parallelism(spec),
    numberFormat(spec),
    engine === null
      ? `runtime ${spec.serving.runtime} loads the weights themselves`
      : stepNames(engine.steps),
  ]);
  const columns = [
    { title: "MODEL" },
    { title: "ENGINE KEY" },
    { title: "GPU" },
    { title: "TP x PP" },
    { title: "FORMAT" },
    { title: "STEPS" },
  ];
  return { title: "Engines", lines: [...textTable(columns, rows), ...limitLines(models)] };
}

/** `tp x pp` of an engine, of which the product is its number of ranks and GPUs. */
function parallelism({ engine }: ModelPlan["spec"]): string {
  return `${engine.tensorParallel} x ${engine.pipelineParallel}`;
}

function gpuName({ engine }: ModelPlan["spec"]): string {
  const { gpu, migProfile } = engine.target;
  return `${gpu.name} ${gpu.computeCapability}${migProfile === undefined ? "" : ` ${migProfile}`}`;
}

function numberFormat({ engine }: ModelPlan["spec"]): string {
  return engine.quantization === "none" ? engine.dtype : `${engine.quantization}/${engine.dtype}`;
}

/** `requirements` may be several commands; its number is more telling than its repetition. */
function stepNames(steps: readonly { readonly name: string }[]): string {
  const counts = new Map<string, number>();
  for (const { name } of steps) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count === 1 ? name : `${name} (${count})`)).join(", ");
}

function limitLines(models: readonly ModelPlan[]): string[] {
  const rows = models.map(({ name, spec, engine }) => {
    const { limits } = spec.engine;
    const visual = engine?.visual ?? null;
    return [
      name,
      String(limits.maxBatchSize),
      String(limits.maxInputTokens),
      String(limits.maxInputTokens + limits.maxOutputTokens),
      visual === null
        ? "none"
        : visual.maxMultimodalTokens > 0
          ? `${visual.maxMultimodalTokens} in the prompt table, visual engine batch ${visual.visionMaxBatchSize}`
          : `${visual.maxEncoderInputTokens} for cross attention, visual engine batch ${visual.visionMaxBatchSize}`,
    ];
  });
  const columns = [
    { title: "LIMITS OF" },
    { title: "BATCH", align: "right" },
    { title: "INPUT", align: "right" },
    { title: "SEQUENCE", align: "right" },
    { title: "VISUAL TOKENS" },
  ] as const;
  return ["", ...textTable(columns, rows)];
}

/** Where clients ask, and how Triton is started. */
export function servingSection({ models }: GpuPlan): Section {
  const rows = models.map(({ name, spec, repository }) => [
    name,
    String(spec.serving.replicas),
    gpuPlace(spec),
    String(repository.launch.ranks.length),
    repository.flavour,
    repository.decoupled ? "yes" : "no",
    askedModels(repository),
  ]);
  const columns = [
    { title: "MODEL" },
    { title: "SERVERS", align: "right" },
    { title: "WHERE" },
    { title: "RANKS", align: "right" },
    { title: "REPOSITORY" },
    { title: "DECOUPLED" },
    { title: "CLIENTS ASK" },
  ] as const;
  return { title: "Serving", lines: textTable(columns, rows) };
}

function gpuPlace({ pool, gpuIndices }: ModelPlan["spec"]): string {
  return gpuIndices === undefined ? pool : `${pool} GPU ${gpuIndices.join(",")}`;
}

function askedModels({ clientModel, streamingModel }: ModelPlan["repository"]): string {
  return streamingModel === clientModel ? clientModel : `${clientModel}, for streams ${streamingModel}`;
}

/** None where the stack has no encoders. */
export function encoderSection({ encoders, spec }: GpuPlan): Section[] {
  if (encoders === null || spec.encoders === null) return [];
  const device = encoders.gpu === null ? "on the CPU" : `on a GPU (${encoders.gpu})`;
  const rows = encoders.models.map(({ name, encoder, export: exported, steps }) => [
    name,
    encoder,
    String(exported.dimension),
    stepNames([exported, ...steps]),
  ]);
  const columns = [
    { title: "MODEL" },
    { title: "WEIGHTS" },
    { title: "NUMBERS", align: "right" },
    { title: "STEPS" },
  ] as const;
  return [
    {
      title: "Encoders",
      lines: [
        ...paragraph(
          `key ${encoders.shortKey}, ${encoders.precision} ${device}, pool ${spec.encoders.pool}, served by ${encoders.image}`,
        ),
        ...textTable(columns, rows),
      ],
    },
  ];
}
