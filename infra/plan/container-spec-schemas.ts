/**
 * The JSON files that programs inside the containers read. The plan takes types from here by inference, and nothing at run
 * time; tests check recorded specs. The programs refuse another version (containers/python/engine_room/shared/specs.py).
 */
import { z } from "zod";

const text = z.string().min(1);
const sha256 = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .describe("64 hexadecimal digits");
const shortKey = z
  .string()
  .regex(/^[0-9a-f]{12}$/)
  .describe("12 hexadecimal digits");
/** Without `.` and `..`, which would lead out of a folder that a program may write to. */
const absolutePath = z
  .string()
  .regex(/^(?:\/(?!\.\.?(?:\/|$))[^/\s]+)+\/?$/)
  .describe("an absolute path without spaces or .. in it");
const plainPath = z
  .string()
  .regex(/^(?!\.\.?(?:\/|$))[^/\s]+(?:\/(?!\.\.?(?:\/|$))[^/\s]+)*$/)
  .describe("a plain relative path");
const folderName = z
  .string()
  .regex(/^(?!\.\.?$)[^/\s]+$/)
  .describe("the name of one folder");
/** A command; its arguments may be empty. */
const argv = z.array(z.string()).min(1);
const texts = z.record(z.string(), z.string());
const count = z.int().min(0);
const atLeastOne = z.int().min(1);

/** An engine runs on no other TensorRT, and on no other GPU. */
const release = z.strictObject({
  tag: text,
  tensorRtLlm: text,
  /** null if no document names it. */
  tensorRt: text.nullable(),
});

const gpu = z.strictObject({
  /** As `nvidia-smi` has it, without vendor: `A10G`. */
  name: text,
  /** `8.6`. */
  computeCapability: z
    .string()
    .regex(/^\d+\.\d+$/)
    .describe("two numbers with a dot between, such as 8.6"),
  /** `3g.20gb`; null: the whole GPU. */
  migProfile: text.nullable(),
});

/** Where the weights of a model come from; credentials are named, never held. */
const weightsSource = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("hub"), repository: text, revision: text }),
  z.strictObject({ kind: z.literal("modelscope"), repository: text, revision: text }),
  z.strictObject({ kind: z.literal("s3"), uri: text, revision: text }),
  /** A folder of the machine or volume; `revision` is the user's word for its content, and part of the engine key. */
  z.strictObject({ kind: z.literal("folder"), path: absolutePath, revision: text }),
]);

/** Sorted JSON of this is hashed as an engine's key. */
const engineKeyFields = z.strictObject({
  model: text,
  weights: text,
  revision: text,
  /** Repository and commit of the model's own source code, if it has one. */
  code: text.optional(),
  tensorRtLlm: text,
  tensorRt: text,
  /** `A10G 8.6`, with the MIG profile if there is one. */
  gpu: text,
  dtype: text,
  quantization: text,
  tensorParallel: atLeastOne,
  pipelineParallel: atLeastOne,
  /** The user's word for the content of a folder of calibration samples. */
  calibration: text.optional(),
  /** Step name to its words, places as `<weights>`. */
  steps: z.record(z.string(), z.array(z.string())),
});

const buildStep = z.strictObject({
  name: z.enum(["download", "requirements", "convert", "llm", "vision", "check"]),
  /** Purpose, in a few words. */
  summary: text,
  argv,
  environment: texts,
  /** Whether the words are part of the engine key. */
  inKey: z.boolean(),
});

const engineBuildPlan = z.strictObject({
  model: text,
  key: sha256,
  shortKey,
  keyFields: engineKeyFields,
  /** `/store/engines/<model>/<key12>` */
  directory: absolutePath,
  /** Folders and files that steps name; a key has their names, as the paths depend on image, store and key. */
  places: z.strictObject({
    weights: absolutePath,
    code: absolutePath,
    checkpoint: absolutePath,
    engine: absolutePath,
    llm: absolutePath,
    vision: absolutePath,
    goldenImage: absolutePath,
    scripts: absolutePath,
    calibration: absolutePath.optional(),
  }),
  steps: z.array(buildStep).min(1),
  /** Ranks: tensor parallel times pipeline parallel. */
  worldSize: atLeastOne,
  /** `--max_seq_len`. */
  maxSequenceTokens: atLeastOne,
  /** Numbers of the visual half, which build, repository and requests share; null for a text model. */
  visual: z
    .strictObject({
      /** `--max_multimodal_len`: 0 for cross attention. */
      maxMultimodalTokens: count,
      /** `--max_encoder_input_len`: 0 without cross attention. */
      maxEncoderInputTokens: count,
      /** `--max_batch_size` of the visual engine. */
      visionMaxBatchSize: atLeastOne,
      tokensPerRequest: count,
      /** `--multimodal_gpu0_cuda_mem_pool_bytes`. */
      cudaMemoryPoolBytes: count,
    })
    .nullable(),
});

/** engine.json, for `engine_builder build`. */
export const engineBuildSpec = z.strictObject({
  version: z.literal(1),
  /** Catalogue name. */
  model: folderName,
  release,
  gpu,
  /** null for a model that is served from its weights, without an engine. */
  plan: engineBuildPlan.nullable(),
  weights: z.strictObject({
    source: weightsSource,
    /** Where they are kept. */
    directory: absolutePath,
    /** Patterns of the files to fetch; empty: all. */
    include: z.array(text),
    exclude: z.array(text),
    /** In GB (10^9). */
    downloadGB: z.number().min(0),
    /** They fetch from other sources than hubs; the builder itself fetches from hubs. */
    commands: z.array(argv),
  }),
  /** Question to the finished engine. */
  golden: z.strictObject({
    prompt: text,
    image: text.optional(),
    maxTokens: atLeastOne,
    answerContains: z.array(text).min(1),
  }),
  /** Planned image processor of the server, which the weights' own file must match; absent without image processor. */
  imageProcessor: z.looseObject({ file: plainPath, image_processor_type: text }).optional(),
});

const exportStep = z.strictObject({
  name: z.literal("export"),
  argv,
  repository: text,
  revision: z
    .string()
    .regex(/^[0-9a-f]{40}$/)
    .describe("a commit of 40 hexadecimal digits"),
  inputs: z.array(text).min(1),
  output: text,
  dimension: atLeastOne,
  /** Inside the graph, after the transformer. */
  graph: z.array(text).min(1),
  opset: atLeastOne,
  /** Number format inside the graph; its input of pixels and its output are float32 in either. */
  dataType: z.enum(["float32", "float16"]),
});

const encoderModel = z.strictObject({
  name: folderName,
  /** Catalogue row. */
  encoder: text,
  export: exportStep,
  /** After the export: calibration for int8, trtexec for a GPU; empty on a CPU. */
  steps: z.array(z.strictObject({ name: z.enum(["calibrate", "trtexec"]), argv })),
});

/** Sorted JSON of this is hashed as the encoders' key. */
const encoderKeyFields = z.strictObject({
  precision: text,
  /** The user's word for the content of calibration samples. */
  calibration: text.optional(),
  /** TensorRT that builds the plans, by the image that has it; null on a CPU. */
  tensorRt: text.nullable(),
  /** `A10G 8.6`, with the MIG profile if there is one; null on a CPU. */
  gpu: text.nullable(),
  models: z.record(
    z.string(),
    z.strictObject({
      encoder: text,
      weights: text,
      revision: text,
      /** Step name to its words, places as `<onnx>`. */
      steps: z.record(z.string(), z.array(z.string())),
    }),
  ),
});

/** encoders.json, for `encoder_builder build`. */
export const encoderBuildSpec = z.strictObject({
  version: z.literal(1),
  release,
  /** null if nothing is built for a GPU. */
  gpu: gpu.nullable(),
  plan: z.strictObject({
    device: z.enum(["cpu", "gpu"]),
    precision: z.enum(["fp32", "fp16", "int8"]),
    key: sha256,
    keyFields: encoderKeyFields,
    /** `/store/encoders/<key12>` */
    directory: absolutePath,
    /** Sorted by name. */
    models: z.array(encoderModel).min(1),
  }),
});

/** Exact command of the entry point; see infra/plan/repository/launch.ts. */
const launch = z.strictObject({
  /** Variables of the server, which the container need not have. */
  environment: texts,
  /** mpirun with its options; empty: the only rank runs without MPI. */
  mpirun: z.array(z.string()),
  /** The command of each rank's server. */
  ranks: z.array(argv).min(1),
  /** Value of `--exit-timeout-secs`. */
  exitTimeoutSeconds: atLeastOne,
});

/** One folder of a model repository. */
const templateModel = z.strictObject({
  /** Triton serves it under this name. */
  name: folderName,
  /** Folder below all_models that is copied, with a version folder `1`. */
  template: plainPath,
  /** Where the template is; absent: the repository's `allModels`. */
  templateRoot: absolutePath.optional(),
  /** Values by placeholder, sorted; exactly these are filled in. */
  substitutions: texts,
  /** Placeholders of the template that keep Triton's own default, with the reason. */
  defaults: texts,
  /**
   * Protobuf text by field of config.pbtxt without placeholder: `max_batch_size` to `4`. A line that begins with the field's name
   * is removed, and `name: value` is added at the end.
   */
  configFields: texts.optional(),
  /** Files by path below the folder; they replace those of the template. */
  files: z.record(plainPath, z.string()).optional(),
  /**
   * Path below the folder to path below the image's folder of Python models. A file of the template in such a place stays beside
   * it, as `template_NAME`.
   */
  sources: z.record(plainPath, plainPath).optional(),
});

const templateRepository = z.strictObject({
  flavour: text,
  /** Set of templates, as in catalogue/data/templates.json. */
  templates: text,
  /** Folder of the templates in the image. */
  allModels: absolutePath,
  /** fill_template.py in the image, for who fills by hand; the entry point fills by itself. */
  fillTemplate: absolutePath,
  path: absolutePath,
  /** Sorted by name. */
  models: z.array(templateModel).min(1),
  /** Triton model for clients' requests; `streamingModel` for streamed answers. */
  clientModel: text,
  streamingModel: text,
  decoupled: z.boolean(),
});

/** server.json of a language model on GPUs, for `triton_entrypoint serve`. */
const modelServerSpec = z.strictObject({
  version: z.literal(2),
  /** Name in the stack. */
  model: text,
  release,
  gpu,
  /** Folder whose manifest must be complete; null if the model has no engine. */
  engineDirectory: absolutePath.nullable(),
  /** Has tokenizers, and the weights themselves if there is no engine. */
  weightsDirectory: absolutePath,
  repository: templateRepository,
  launch,
});

/** A folder of a model repository whose config.pbtxt the plan has. */
const fileModel = {
  name: folderName,
  /** config.pbtxt. */
  config: text,
  /** Path below the model's folder to path below the image's folder of Python models. */
  sources: z.record(plainPath, plainPath),
};

/** server.json of the encoders beside language models on GPUs. */
const encoderServerSpec = z.strictObject({
  version: z.literal(2),
  model: z.literal("encoders"),
  release,
  /** null on the CPU. */
  gpu: gpu.nullable(),
  engineDirectory: absolutePath,
  repository: z.strictObject({
    flavour: z.literal("encoders"),
    path: absolutePath,
    models: z
      .array(
        z.strictObject({
          ...fileModel,
          /** Path below the model's folder to path below `engineDirectory`. */
          files: z.record(plainPath, plainPath),
        }),
      )
      .min(1),
  }),
  launch,
});

/** server.json of the CPU tier. */
const cpuServerSpec = z.strictObject({
  version: z.literal(2),
  /** Name in the stack. */
  model: text,
  release: z.null(),
  gpu: z.null(),
  engineDirectory: z.null(),
  repository: z.strictObject({
    flavour: z.literal("cpu"),
    path: text,
    /** null for a folder that is filled already. */
    models: z
      .array(
        z.strictObject({
          ...fileModel,
          /** Artifact that a builder puts into the folder of the version, or null. */
          artifact: z
            .strictObject({ artifact: text, sources: z.array(z.looseObject({ kind: text })).min(1) })
            .nullable(),
        }),
      )
      .min(1)
      .nullable(),
  }),
  launch,
});

export const serverSpec = z.union([modelServerSpec, encoderServerSpec, cpuServerSpec]);

type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;

export type EngineBuildSpec = DeepReadonly<z.infer<typeof engineBuildSpec>>;
export type EnginePlan = NonNullable<EngineBuildSpec["plan"]>;
export type EngineKeyFields = EnginePlan["keyFields"];
export type EncoderBuildSpec = DeepReadonly<z.infer<typeof encoderBuildSpec>>;
export type ModelServerSpec = DeepReadonly<z.infer<typeof modelServerSpec>>;
export type EncoderServerSpec = DeepReadonly<z.infer<typeof encoderServerSpec>>;
export type CpuServerSpec = DeepReadonly<z.infer<typeof cpuServerSpec>>;
export type Launch = DeepReadonly<z.infer<typeof launch>>;
