/** Invariants of every plan of a stack on GPUs without problems. Each returns sentences about violations. */

import { templateSet } from "../../../../infra/plan/catalogue/templates.ts";
import { visionTypeOf } from "../../../../infra/plan/catalogue/vision-types.ts";
import type { EnginePlan } from "../../../../infra/plan/container-spec-schemas.ts";
import type { GpuPlan, ModelPlan } from "../../../../infra/plan/gpu-stack.ts";
import { canonicalJson, jsonDigest } from "../../../../infra/plan/plain-data.ts";
import type { RepositoryModel } from "../../../../infra/plan/repository/repository-plan.ts";

/** @param secrets - Credentials that the stack file had. */
export type Invariant = (plan: GpuPlan, secrets: readonly string[]) => readonly string[];

/** The hourly cost of a line is rounded to 0.0001 USD before it is multiplied by the hours of a month. */
const ROUNDING_USD = 0.05;

export const invariants = {
  "ranks are tensor times pipeline parallel, everywhere, and fit one machine": (plan) =>
    plan.models.flatMap(({ name, spec, engine, repository }) => {
      const { tensorParallel, pipelineParallel } = spec.engine;
      const ranks = tensorParallel * pipelineParallel;
      const pool = poolOf(plan, spec.pool);
      return wrong([
        [engine === null || engine.worldSize === ranks, `${name}: the engine has ${engine?.worldSize} ranks`],
        [
          repository.launch.ranks.length === ranks,
          `${name}: the launch has ${repository.launch.ranks.length} ranks`,
        ],
        [ranks <= pool.machine.gpus, `${name}: ${ranks} ranks on ${pool.machine.gpus} GPUs`],
        [ranks === 1 || pool.sharing.mode === "none", `${name}: ${ranks} ranks on shared GPUs`],
      ]);
    }),

  "heads divide by tensor parallel": ({ models }) =>
    models.flatMap(({ name, spec: { engine } }) => {
      const { heads, kvHeads } = engine.row.architecture;
      const size = engine.tensorParallel;
      const divides = heads % size === 0 && (kvHeads % size === 0 || size % kvHeads === 0);
      return wrong([[divides, `${name}: ${heads} and ${kvHeads} heads on ${size} GPUs`]]);
    }),

  "Triton's batch is at most the engine's": ({ models }) =>
    models.flatMap(({ name, spec, repository }) =>
      repository.models.flatMap(({ name: folder, substitutions, configFields }) => {
        const batches = [substitutions.triton_max_batch_size, configFields?.max_batch_size];
        return wrong(
          batches.map((batch) => [
            batch === undefined || Number(batch) <= spec.engine.limits.maxBatchSize,
            `${name}: ${folder} has a batch of ${batch}`,
          ]),
        );
      }),
    ),

  "visual tokens are batch times features times images": ({ models }) =>
    models.flatMap(({ name, spec, engine }) => {
      const { row, limits } = spec.engine;
      if (engine === null) return [];
      if (row.vision === undefined)
        return wrong([[engine.visual === null, `${name}: a text model has visual numbers`]]);
      const { attention, tokensPerImage, tokensPerRequest, runsPerImage } = row.vision;
      const perRequest = tokensPerRequest ?? tokensPerImage * limits.maxImagesPerRequest;
      const multimodal = attention === "prompt" ? limits.maxBatchSize * perRequest : 0;
      const llm = argvOf(engine, "llm");
      return wrong([
        [
          engine.visual?.maxMultimodalTokens === multimodal,
          `${name}: ${engine.visual?.maxMultimodalTokens} tokens`,
        ],
        [
          attention === "cross"
            ? flagOf(llm, "--max_encoder_input_len") === String(perRequest)
            : flagOf(llm, "--max_multimodal_len") === String(multimodal),
          `${name}: ${llm.join(" ")}`,
        ],
        [
          (engine.visual?.visionMaxBatchSize ?? 0) >=
            limits.maxBatchSize *
              (visionTypeOf(row)?.severalAreTiles
                ? Math.max(limits.maxImagesPerRequest, runsPerImage)
                : limits.maxImagesPerRequest * runsPerImage),
          `${name}: the visual engine's batch is ${engine.visual?.visionMaxBatchSize}`,
        ],
        [attention === "cross" || limits.maxInputTokens > perRequest, `${name}: no room for a question`],
      ]);
    }),

  "a sequence is prompt and answer together, within the trained context": ({ models }) =>
    models.flatMap(({ name, spec, engine }) => {
      const { limits, row } = spec.engine;
      const sequence = limits.maxInputTokens + limits.maxOutputTokens;
      return wrong([
        [
          engine === null || engine.maxSequenceTokens === sequence,
          `${name}: ${engine?.maxSequenceTokens} tokens`,
        ],
        [sequence <= row.trainedContextTokens, `${name}: ${sequence} of ${row.trainedContextTokens} tokens`],
      ]);
    }),

  "every template gets what it must have, and nothing that it does not know": ({ models }) =>
    models.flatMap(({ name, repository }) => {
      const set = templateSet(repository.templates);
      return repository.models.flatMap((model) => {
        // Templates of the tutorials are not in a set; files of the plan's own have no placeholder.
        if (set === undefined || model.templateRoot !== undefined) return [];
        const keys = set.models[model.template] ?? { mandatory: [], optional: [] };
        const known = [...keys.mandatory, ...keys.optional];
        const given = Object.keys(model.substitutions);
        return wrong([
          ...keys.mandatory.map(
            (key) => [given.includes(key), `${name}: ${model.name} lacks ${key}`] as const,
          ),
          ...given.map((key) => [known.includes(key), `${name}: ${model.name} has no ${key}`] as const),
          ...known.map(
            (key) =>
              [
                given.includes(key) !== Object.hasOwn(model.defaults, key),
                `${name}: ${key} of ${model.name} is neither given nor explained, or both`,
              ] as const,
          ),
        ]);
      });
    }),

  "no value holds a placeholder, a line break or nothing": ({ models, encoders }) =>
    [
      ...models.flatMap(({ repository }) => [
        ...repository.launch.ranks.flat(),
        ...Object.values(repository.launch.environment),
        ...repository.models.flatMap(valuesOf),
      ]),
      // A prompt is a word like any other, and may have lines: no shell reads it.
      ...models.flatMap(({ engine }) =>
        (engine?.steps ?? []).flatMap(({ argv }) =>
          argv.filter((_, index) => argv[index - 1] !== "--input_text"),
        ),
      ),
      ...(encoders?.models.flatMap(({ steps }) => steps.flatMap(({ argv }) => argv)) ?? []),
    ].flatMap((word) =>
      wrong([
        [!/[\n\r]/.test(word), `a line break in ${JSON.stringify(word)}`],
        [!/\$\{|\bundefined\b|\bNaN\b|\[object/.test(word), `a hole in ${JSON.stringify(word)}`],
      ]),
    ),

  "words of commands are not empty, and programs come first": ({ models }) =>
    models.flatMap(({ name, engine, repository }) =>
      [...(engine?.steps.map(({ argv }) => argv) ?? []), ...repository.launch.ranks].flatMap((argv) =>
        wrong([
          [argv.length > 0 && !argv[0]?.startsWith("-"), `${name}: no program in ${argv.join(" ")}`],
          [argv.every((word) => word !== ""), `${name}: an empty word in ${argv.join(" ")}`],
        ]),
      ),
    ),

  "KV caches of a GPU that fits take no more than its memory together, in whatever order they load": ({
    fit,
    models,
  }) =>
    fit.flatMap(({ gpu, tenants, verdict, capacityGiB, kvCaches = [] }) => {
      if (verdict === "doesNotFit") return [];
      const totalGiB = kvCaches.reduce((sum, { model, loadedBeforeGiB, ceilingGiB }) => {
        const fraction = cacheFraction(models, model) ?? 0;
        return sum + Math.min(fraction * (capacityGiB - loadedBeforeGiB), ceilingGiB ?? Infinity);
      }, 0);
      return wrong([
        [totalGiB <= capacityGiB, `${tenants.join(", ")} on ${gpu}: ${totalGiB} of ${capacityGiB} GiB`],
      ]);
    }),

  "every model has a fraction above 0 and below 1": ({ models }) =>
    models.flatMap(({ name, repository }) => {
      const fractions = repository.models.flatMap(
        ({ substitutions }) => substitutions.kv_cache_free_gpu_mem_fraction ?? [],
      );
      return wrong(fractions.map((text) => [Number(text) > 0 && Number(text) < 1, `${name}: ${text}`]));
    }),

  "keys are equal exactly if their fields are": ({ models }) => {
    const engines = enginesOf(models);
    return engines.flatMap((one, index) =>
      engines.slice(index).flatMap((other) => {
        const isSame = canonicalJson(one.keyFields) === canonicalJson(other.keyFields);
        return wrong([[isSame === (one.key === other.key), `${one.key} and ${other.key}`]]);
      }),
    );
  },

  "a key is the hash of its fields": ({ models }) =>
    enginesOf(models).flatMap(({ key, shortKey, keyFields }) =>
      wrong([
        [key === jsonDigest(keyFields), `${key} is not the hash of its fields`],
        [key.startsWith(shortKey) && shortKey.length === 12, `${shortKey} of ${key}`],
      ]),
    ),

  "an engine's folder is its own, and its halves lie apart": ({ models }) => {
    const engines = enginesOf(models);
    const keys = new Set(engines.map(({ model, key }) => `${model} ${key}`));
    const directories = new Set(engines.map(({ directory }) => directory));
    return wrong([
      [keys.size === directories.size, `${keys.size} engines in ${directories.size} folders`],
      ...engines.map(
        ({ places, directory }) => [places.llm !== places.vision, `both halves in ${directory}`] as const,
      ),
    ]);
  },

  "names of objects fit a Kubernetes label": ({ models }) =>
    enginesOf(models).flatMap(({ model, shortKey }) =>
      wrong([[`${model}-${shortKey}`.length <= 63, `${model}-${shortKey} is too long`]]),
    ),

  "engines are built by the GPU that runs them": (plan) =>
    plan.models.flatMap(({ name, spec, engine }) => {
      if (engine === null) return [];
      const [serves, builds] = [poolOf(plan, spec.pool), poolOf(plan, spec.buildPool)];
      return wrong([
        [
          serves.gpu?.name === builds.gpu?.name,
          `${name}: ${builds.gpu?.name} builds for ${serves.gpu?.name}`,
        ],
        [
          engine.keyFields.gpu.startsWith(spec.engine.target.gpu.name),
          `${name}: the key says ${engine.keyFields.gpu}`,
        ],
      ]);
    }),

  "the GPU computes the model's formats": ({ models }) =>
    models.flatMap(({ name, spec: { engine } }) => {
      const formats: readonly string[] = engine.target.gpu.formats;
      return wrong([
        [formats.includes(engine.dtype), `${name}: ${engine.dtype}`],
        [
          engine.quantization === "none" || formats.includes(engine.quantization.replace(/_.*/, "")),
          `${name}: ${engine.quantization}`,
        ],
      ]);
    }),

  "streaming models are decoupled, all of their folders alike": ({ models }) =>
    models.flatMap(({ name, spec, repository }) =>
      wrong([
        [!spec.serving.streaming || repository.decoupled, `${name} streams, and is not decoupled`],
        ...repository.models.map(({ name: folder, substitutions }) => {
          const mode = substitutions.decoupled_mode;
          const expected = repository.decoupled ? "True" : "False";
          return [mode === undefined || mode === expected, `${name}: ${folder} has ${mode}`] as const;
        }),
      ]),
    ),

  "KV cache is reused with images only if the stack file says so": ({ models }) =>
    models.flatMap(({ name, spec, repository }) => {
      if (spec.engine.row.vision === undefined || spec.serving.kvCacheReuse) return [];
      return wrong(
        repository.models.map(({ name: folder, substitutions }) => [
          (substitutions.enable_kv_cache_reuse ?? "False") === "False",
          `${name}: ${folder} reuses`,
        ]),
      );
    }),

  "clients ask a model that the repository has": ({ models }) =>
    models.flatMap(({ name, repository }) => {
      const folders = repository.models.map((model) => model.name);
      return wrong([
        [new Set(folders).size === folders.length, `${name}: ${folders.join(", ")}`],
        [folders.includes(repository.clientModel), `${name}: no folder ${repository.clientModel}`],
        [folders.includes(repository.streamingModel), `${name}: no folder ${repository.streamingModel}`],
      ]);
    }),

  "what does not fit was accepted": ({ fit, spec }) =>
    fit.flatMap(({ verdict, tenants, gpu }) => {
      const isAccepted = tenants.some((tenant) => Object.hasOwn(spec.memoryFitAccept, tenant));
      return wrong([[verdict !== "doesNotFit" || isAccepted, `${tenants.join(", ")} on ${gpu}`]]);
    }),

  "sums are finite and no month asleep costs more than one awake": ({ cost, models }) =>
    wrong([
      ...[cost.hourlyUsd, cost.monthlyUsd, cost.buildUsd, cost.asleepMonthlyUsd].map(
        (usd) => [usd === null || (Number.isFinite(usd) && usd >= 0), `a cost of ${usd}`] as const,
      ),
      [
        (cost.asleepMonthlyUsd ?? 0) <= (cost.monthlyUsd ?? 0) + ROUNDING_USD * cost.lines.length,
        `${cost.asleepMonthlyUsd} asleep, ${cost.monthlyUsd} awake`,
      ],
      ...models.map(
        ({ name, coldStart }) =>
          [
            Number.isFinite(coldStart.seconds) && coldStart.seconds > 0,
            `${name}: ${coldStart.seconds} s`,
          ] as const,
      ),
    ]),

  "no credential is in the plan": (plan, secrets) => {
    const text = JSON.stringify(plan);
    return wrong(
      secrets.map((secret, index) => [!text.includes(secret), `credential ${index} is in the plan`]),
    );
  },
} satisfies Readonly<Record<string, Invariant>>;

export type InvariantName = keyof typeof invariants;

/** Sentences of the claims that don't hold. */
function wrong(claims: readonly (readonly [holds: boolean, sentence: string])[]): readonly string[] {
  return claims.filter(([holds]) => !holds).map(([, sentence]) => sentence);
}

function poolOf(plan: GpuPlan, name: string) {
  const pool = plan.spec.pools.find((one) => one.name === name);
  if (pool === undefined) throw new Error(`The plan has no pool ${name}`);
  return pool;
}

function enginesOf(models: readonly ModelPlan[]): readonly EnginePlan[] {
  return models.flatMap(({ engine }) => engine ?? []);
}

function argvOf(engine: EnginePlan, step: string): readonly string[] {
  return engine.steps.find(({ name }) => name === step)?.argv ?? [];
}

function flagOf(argv: readonly string[], flag: string): string | undefined {
  const index = argv.indexOf(flag);
  return index < 0 ? undefined : argv[index + 1];
}

function valuesOf({ substitutions, configFields, files }: RepositoryModel): readonly string[] {
  // Files may have lines.
  const lines = Object.values(files ?? {}).flatMap((text) => text.split("\n"));
  return [...Object.values(substitutions), ...Object.values(configFields ?? {}), ...lines];
}

function cacheFraction(models: readonly ModelPlan[], tenant: string): number | undefined {
  const model = models.find(({ name }) => name === tenant);
  const text = model?.repository.models.flatMap(
    ({ substitutions }) => substitutions.kv_cache_free_gpu_mem_fraction ?? [],
  )[0];
  return text === undefined ? undefined : Number(text);
}
