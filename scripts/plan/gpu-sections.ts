/** What a stack on GPUs builds, how it serves, what it takes of each GPU and how long it starts: the sections of `plan --full`. */
import { type Advisory, openAdvisories } from "../../infra/plan/catalogue/advisories.ts";
import type { ColdStart } from "../../infra/plan/cost/types.ts";
import type { MemoryFit } from "../../infra/plan/fit/memory-fit.ts";
import type { MemoryTerm } from "../../infra/plan/fit/terms.ts";
import type { Verdict } from "../../infra/plan/fit/verdicts.ts";
import type { GpuPlan, ModelPlan } from "../../infra/plan/gpu-stack.ts";
import { duration, figure, paragraph, type Section, textTable } from "./text-table.ts";

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

/** What each verdict means to people. */
export const VERDICTS: Readonly<Record<Verdict, string>> = {
  fits: "fits",
  tight: "tight: within the error of the estimate",
  doesNotFit: "DOES NOT FIT",
};

const TERMS: Readonly<Record<MemoryTerm["what"], string>> = {
  weights: "weights",
  visionEngine: "visual engine",
  visionActivations: "visual activations",
  activations: "activations",
  kvCache: "KV cache",
  crossKvCache: "cross KV cache",
  memoryPool: "memory pool",
  cudaContext: "CUDA context",
};

/** GPUs on which the very same lands are shown once, with their number. */
export function fitSection({ fit }: GpuPlan): Section {
  const kinds = new Map<string, { readonly fit: MemoryFit; count: number }>();
  for (const each of fit) {
    const kind = JSON.stringify(each);
    const known = kinds.get(kind);
    if (known === undefined) kinds.set(kind, { fit: each, count: 1 });
    else known.count++;
  }
  return {
    title: "Memory of each GPU (estimate, GiB)",
    lines: [...kinds.values()].flatMap(({ fit: each, count }, index) => [
      ...(index === 0 ? [] : [""]),
      ...gpuLines(each, count),
    ]),
  };
}

function gpuLines(fit: MemoryFit, count: number): string[] {
  const { pool, gpu, capacityGiB, needGiB, errorGiB, terms, verdict, alternatives } = fit;
  const rows = terms.map(({ tenant, what, gib, arithmetic }) => [
    tenant,
    TERMS[what],
    figure(gib, 2),
    arithmetic,
  ]);
  const columns = [
    { title: "TENANT" },
    { title: "TERM" },
    { title: "GiB", align: "right" },
    { title: "HOW" },
  ] as const;
  const heading =
    `${count === 1 ? "" : `${count} of `}${pool}, ${gpu}: need ${figure(needGiB, 2)} of ${figure(capacityGiB, 2)}, ` +
    `error ${figure(errorGiB, 2)}: ${VERDICTS[verdict]}`;
  return [
    ...paragraph(heading),
    ...textTable(columns, rows, { indent: 4 }),
    ...fit.notes.flatMap((note) => paragraph(note, 4)),
    ...alternatives.flatMap((alternative) => paragraph(`would fit: ${showAlternative(alternative)}`, 4)),
  ];
}

function showAlternative({ change, hourlyUsd }: MemoryFit["alternatives"][number]): string {
  return `${change}${hourlyUsd === null ? "" : `, $${figure(hourlyUsd, 3)} an hour`}`;
}

const START_STEPS: Readonly<Record<ColdStart["steps"][number]["what"], string>> = {
  node: "machine",
  imagePull: "image",
  engineCopy: "engine copy",
  load: "load",
};

/** Every step of every model, and their sums. */
export function coldStartSection({ models }: GpuPlan): Section {
  const columns = [
    { title: "MODEL" },
    { title: "STEP" },
    { title: "SECONDS", align: "right" },
    { title: "HOW" },
  ] as const;
  const rows = models.flatMap(({ name, coldStart }) => [
    ...coldStart.steps.map(({ what, seconds, arithmetic }, index) => [
      index === 0 ? name : "",
      START_STEPS[what],
      figure(seconds, 0),
      arithmetic,
    ]),
    ...sumRows(coldStart),
  ]);
  return { title: "Cold start, engine built (estimate)", lines: textTable(columns, rows) };
}

/** Without words where there is one case only. */
function sumRows({ seconds, onRunningMachine }: ColdStart): readonly (readonly string[])[] {
  const row = (sum: number, where: string) => ["", "sum", figure(sum, 0), `${duration(sum)}${where}`];
  return [
    row(seconds, onRunningMachine.length === 0 ? "" : " on a new machine"),
    ...onRunningMachine.map((one) =>
      row(one.seconds, ` on a machine that runs${one.hasImage ? " and has the image" : ""}`),
    ),
  ];
}

const SEVERITIES: readonly Advisory["severity"][] = ["critical", "high", "medium", "low"];

/** Each known vulnerability of the release, the worst first. */
export function advisorySection({ release }: GpuPlan): Section[] {
  const open = openAdvisories(release);
  if (open.length === 0) return [];
  const rows = SEVERITIES.flatMap((severity) =>
    open
      .filter((advisory) => advisory.severity === severity)
      .map(({ id, component, fixedIn, summary }) => [
        id,
        severity,
        `${component === "triton" ? "Triton" : "TensorRT-LLM"} ${fixedIn}`,
        summary,
      ]),
  );
  const columns = [{ title: "ID" }, { title: "SEVERITY" }, { title: "FIXED IN" }, { title: "WHAT" }];
  return [{ title: `Vulnerabilities of ${release.tag} (${open.length})`, lines: textTable(columns, rows) }];
}
