/** A stack file, resolved: every name replaced by its row of the catalogue, every default filled in. */
import type { ClipRow, SentenceEncoderRow } from "./catalogue/encoders.ts";
import type { PricedService } from "./catalogue/prices.ts";
import type {
  Dtype,
  EngineLimits,
  Flavour,
  Gpu,
  ImageLayout,
  LanguageModel,
  MachineType,
  Quantization,
  Release,
  Runtime,
} from "./catalogue/types.ts";
import type { EngineBuildSpec } from "./container-spec-schemas.ts";

export type WeightsSource = EngineBuildSpec["weights"]["source"];

/** A partition is a GPU of its own to TensorRT. */
export interface TargetGpu {
  readonly gpu: Gpu;
  /** MIG profile such as `3g.20gb`; absent: the whole GPU. */
  readonly migProfile?: string | undefined;
}

/** Flags of a program by name, without dashes; true: a flag without value. */
export type ExtraFlags = Readonly<Record<string, string | number | true | readonly (string | number)[]>>;

/** All that an engine depends on. */
export interface EngineSpec {
  /** Catalogue name: `llava-1.5-7b`. */
  readonly model: string;
  readonly row: LanguageModel;
  readonly release: Release;
  readonly layout: ImageLayout;
  readonly target: TargetGpu;
  readonly weights: WeightsSource;
  readonly dtype: Dtype;
  readonly quantization: Quantization;
  readonly tensorParallel: number;
  readonly pipelineParallel: number;
  readonly limits: EngineLimits;
  /** `kvCacheReuse` or `chunkedContext`: attention to a prompt then reads pages of the KV cache. */
  readonly pagedContext: boolean;
  /** Calibration samples of a quantization; absent: those of NVIDIA's examples. */
  readonly calibration?:
    | {
        /** Dataset of the hub; quantize.py knows its columns. */
        readonly dataset?: string | undefined;
        /** In the engine store; `revision` is the user's word for its content. */
        readonly folder?: { readonly path: string; readonly revision: string } | undefined;
        readonly samples?: number | undefined;
      }
    | undefined;
  /** Absent: none. */
  readonly extraFlags?: {
    readonly converter?: ExtraFlags | undefined;
    readonly builder?: ExtraFlags | undefined;
    readonly vision?: ExtraFlags | undefined;
  };
}

/** Texts by path below the model repository, such as `postprocessing/1/model.py`. */
export type TemplateFiles = Readonly<Record<string, string>>;

/** How Triton serves a model; no engine depends on it. */
export interface ServingSpec {
  /** Name in the stack. */
  readonly name: string;
  readonly runtime: Runtime;
  readonly flavour: Flavour;
  readonly tritonBackend: "tensorrtllm" | "python";
  /** Triton's `max_batch_size`; at most the engine's. */
  readonly maxBatchSize: number;
  /** Copies of preprocessing and postprocessing. */
  readonly instanceCount: number;
  readonly blsInstanceCount: number;
  /** Answers token by token; needs the decoupled transaction policy. */
  readonly streaming: boolean;
  /** Sends all tokens so far to postprocessing: keeps the spaces of SentencePiece models when streaming through BLS. */
  readonly accumulateTokens: boolean;
  /** Off: the answer begins with the prompt. */
  readonly excludeInputInOutput: boolean;
  readonly kvCacheReuse: boolean;
  readonly chunkedContext: boolean;
  readonly maxQueueDelayMicroseconds: number;
  /** 0: no limit. */
  readonly maxQueueSize: number;
  readonly batchingStrategy: "inflight_fused_batching" | "inflight_batching";
  /** Fraction of the memory that is free after loading; absent: derived by memoryFit. */
  readonly kvCacheFreeGpuMemoryFraction?: number | undefined;
  /** Absent: the size that the fraction gives. */
  readonly maxTokensInPagedKvCache?: number | undefined;
  readonly maxAttentionWindowTokens?: number | undefined;
  /** Placeholders of templates that no other field decides; absent: none. */
  readonly parameters?: Readonly<Record<string, string | number | boolean>>;
  /** In place of the release's; absent: none. */
  readonly templateFiles?: TemplateFiles;
  /** Requests that must be answered at the same time; the KV cache is planned for them. */
  readonly concurrentRequests: number;
  /** Servers of this model behind one name. */
  readonly replicas: number;
}

/** One served model of a stack. */
export interface ModelSpec {
  readonly engine: EngineSpec;
  readonly serving: ServingSpec;
  /** Node pool that serves it. */
  readonly pool: string;
  /** Node pool that builds its engine; must have the same GPU. */
  readonly buildPool: string;
  /** GPU numbers on a host, for `docker`; absent: the scheduler chooses. */
  readonly gpuIndices?: readonly number[] | undefined;
  /** Path in the stack file: `models[0]`. */
  readonly path: string;
}

/** Encoders of a stack: `vision_encoder`, `text_encoder`, `clip_text`, `llava_ensemble`. */
export interface EncodersSpec {
  /** Names of rows. */
  readonly vision: string;
  readonly text: string;
  /** Rows that the stack file gives; absent: the catalogue's. */
  readonly ownVision?: ClipRow;
  readonly ownText?: SentenceEncoderRow;
  readonly device: "cpu" | "gpu";
  /** `int8` needs a calibrated QDQ model, which the encoder builder makes. */
  readonly precision: "fp32" | "fp16" | "int8";
  /** Samples in the engine store, for int8; `revision` is the user's word for their content. Absent: the builder's. */
  readonly calibration?: {
    readonly images?: string | undefined;
    readonly texts?: string | undefined;
    readonly revision: string;
  };
  readonly maxBatchSize: number;
  readonly maxQueueDelayMicroseconds: number;
  /** Pool that runs them. */
  readonly pool: string;
  /** GPU numbers on a host, if `device` is `gpu`. */
  readonly gpuIndices?: readonly number[] | undefined;
  readonly replicas: number;
}

/** How pods share a GPU. */
export type GpuSharing =
  | { readonly mode: "none" }
  /** Any `replicas` pods on each GPU, memory not divided. */
  | { readonly mode: "timeSlicing"; readonly replicas: number }
  /** `replicas` pods on each GPU, each held to its part of the memory. */
  | { readonly mode: "mps"; readonly replicas: number }
  /** Partitions with memory of their own, all of one profile. */
  | { readonly mode: "mig"; readonly profile: string };

/** Machines of one kind. */
export interface PoolSpec {
  readonly name: string;
  /** EC2 instance type; null for a machine that is described by its parts. */
  readonly instanceType: string | null;
  /** Other types with the same GPU, at least as large, which are started when the first type is unavailable. */
  readonly otherInstanceTypes?: readonly string[] | undefined;
  readonly machine: MachineType;
  /** null for a pool without GPU. */
  readonly gpu: Gpu | null;
  readonly sharing: GpuSharing;
  /** Machines kept, and machines at most; equal for a fixed host. */
  readonly nodes: { readonly min: number; readonly max: number };
  readonly capacity: "onDemand" | "spot" | "capacityBlock" | "owned";
  /** The stack's own price; needed for spot. */
  readonly hourlyUsd?: number | undefined;
  /** Disk for images and scratch in GiB. */
  readonly diskGiB: number;
  /** Zones of the region that it uses, by letter; absent: all zones of the network. */
  readonly zones?: readonly string[] | undefined;
  /** Reservation of machines that are paid for already. */
  readonly capacityReservationId?: string | undefined;
  /** Whether its machines pull the images before a pod needs them. */
  readonly prePullsImages?: boolean | undefined;
  readonly path: string;
}

/** Billed parts of a cloud that do not depend on the stack's models. */
export interface RentedParts {
  /** Billed by the hour. `words`: what makes up the number, such as `5 in 2 zones`. */
  readonly services: readonly {
    readonly service: PricedService;
    readonly count: number;
    readonly words?: string;
  }[];
  /** Machines of controllers, beside the pools. */
  readonly machines: readonly {
    readonly what: string;
    readonly instanceType: string;
    readonly count: number;
    /** After `npx engine-room sleep`. */
    readonly asleepCount: number;
    readonly diskGiB: number;
  }[];
  /** Volumes with data, kept while everything sleeps. */
  readonly disks: readonly { readonly what: string; readonly count: number; readonly sizeGiB: number }[];
  /** Logs ingested by CloudWatch, awake and asleep; the GB of a month are assumed. */
  readonly logs: readonly { readonly what: string; readonly gbPerMonth: number }[];
  /** Daily copies of a disk, kept while everything sleeps. */
  readonly copies: readonly { readonly what: string; readonly sizeGiB: number }[];
  /** Items billed by the byte, the request or the month, which are not in the sums. */
  readonly notIncluded: readonly string[];
  /** The stack file's price, in US dollars an hour, of all parts except pools that have no price in the region. */
  readonly otherHourlyUsd?: number | undefined;
  /** Whether `npx engine-room sleep` ends every machine of a cluster. */
  readonly sleepsWithoutMachines?: boolean;
}

/** A stack on GPUs, resolved. */
export interface GpuStackSpec {
  /** One Docker host, or machines that a scheduler fills. */
  readonly runsOn: "host" | "cluster";
  /** Whether machines are started for the stack and billed by the hour. */
  readonly isRented: boolean;
  /** AWS region of prices; null without price table. */
  readonly region: string | null;
  readonly release: Release;
  readonly image: { readonly base: string; readonly layout: ImageLayout };
  readonly models: readonly ModelSpec[];
  /** null for a stack without encoders. */
  readonly encoders: EncodersSpec | null;
  readonly pools: readonly PoolSpec[];
  /** Beside all models, without GPU. */
  readonly front: {
    readonly gateways: number;
    /** Those that the stack runs itself. */
    readonly databases: readonly ("mongo" | "vector")[];
  };
  /** The engine store; `readMBPerSecond`: for one reader. */
  readonly store: {
    readonly kind: "efs" | "volume" | "folder";
    readonly readMBPerSecond: number;
    readonly sizeGiB: number | null;
    /** Throughput that is paid for even when unused. */
    readonly provisionedMiBps: number | null;
  };
  /** Parts other than the pools and the engine store. */
  readonly rented: RentedParts;
  /** For a build while every GPU of its pool serves. */
  readonly whenFull: "fail" | "stopServer";
  /** Reasons by model name for which a verdict "does not fit" is accepted. */
  readonly memoryFitAccept: Readonly<Record<string, string>>;
  readonly acceptUnverified: boolean;
}
