/** Whether the processes on a GPU fit its memory, as data. */

/** One term of the sum. */
export interface MemoryTerm {
  /** Name of the model or encoder in the stack. */
  readonly tenant: string;
  readonly what:
    | "weights"
    | "visionEngine"
    | "visionActivations"
    | "activations"
    | "kvCache"
    | "crossKvCache"
    | "memoryPool"
    | "cudaContext";
  readonly gib: number;
  /** `6,738,415,616 parameters × 2 bytes ÷ 1 GPU` */
  readonly arithmetic: string;
  /** How far the true number may be from `gib`, either way. */
  readonly uncertaintyGiB: number;
  /** Where the rule comes from; with `inferred`, no document has it. */
  readonly source: string;
}

/** A term, and when it is loaded. */
export interface SizedTerm extends MemoryTerm {
  /** `before` TensorRT-LLM measures the free memory for its KV `cache`, or at `anyTime` by another process or model. */
  readonly when: "before" | "anyTime" | "cache";
}

/** Claim of one pod's KV cache on a GPU. */
export interface KvCacheClaim {
  /** Name of the model in the stack. */
  readonly model: string;
  /** Weights, activations, CUDA context and pool of this pod, loaded when it sizes the cache. */
  readonly loadedBeforeGiB: number;
  /** Cache for `concurrentRequests`, cross attention included. */
  readonly promisedGiB: number;
  /** Part of the spare memory that this cache may take besides. */
  readonly headroomGiB: number;
  /** `maxTokensInPagedKvCache` as memory; null: the fraction alone decides. */
  readonly ceilingGiB: number | null;
  /** `kvCacheFreeGpuMemoryFraction` of the stack file; null: derived. */
  readonly explicitFraction: number | null;
}

export type Verdict = "fits" | "tight" | "doesNotFit";

/** One change that would make it fit; the cheapest comes first. */
export interface Alternative {
  readonly change: string;
  /** Machine that it then runs on; null for one that is described by its parts. */
  readonly instanceType: string | null;
  /** One machine, in the stack's region; null where no price is known there. */
  readonly hourlyUsd: number | null;
}

/** One GPU (or partition), with all that lands on it. */
export interface MemoryFit {
  readonly pool: string;
  /** `A10G 22.35 GiB`, with partition or share. */
  readonly gpu: string;
  readonly tenants: readonly string[];
  /** Without the driver's part. */
  readonly capacityGiB: number;
  readonly terms: readonly MemoryTerm[];
  readonly needGiB: number;
  /** Error of the estimate: `tight` is a need within it of the capacity. */
  readonly errorGiB: number;
  readonly verdict: Verdict;
  /** One for each language model on it. */
  readonly kvCaches: readonly KvCacheClaim[];
  /** Such as a KV cache that depends on the order of loading. */
  readonly notes: readonly string[];
  readonly alternatives: readonly Alternative[];
}
