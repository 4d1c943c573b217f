/** Whether what lands on a GPU fits it, as data. */

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
  /** How the number came about: `6,738,415,616 parameters × 2 bytes ÷ 1 GPU`. */
  readonly arithmetic: string;
  /** How far the true number may be from `gib`, either way. */
  readonly uncertaintyGiB: number;
  /** Where the rule comes from; with `inferred`, no document has it. */
  readonly source: string;
}

/** A term, and when it is loaded. */
export interface SizedTerm extends MemoryTerm {
  /**
   * `before`: when TensorRT-LLM measures the free memory for its KV cache, it is there. `anyTime`: by another process or
   * model of the server, in no fixed order. `cache`: the KV cache itself.
   */
  readonly when: "before" | "anyTime" | "cache";
}

/** What one pod's KV cache may take of a GPU: a fraction of what is free when TensorRT-LLM sizes it. */
export interface KvCacheClaim {
  /** Name of the model in the stack. */
  readonly model: string;
  /** What this pod has loaded itself when it sizes the cache: weights, activations, CUDA context, pool. */
  readonly loadedBeforeGiB: number;
  /** Cache for the requests that the stack promises to answer at the same time, cross attention included. */
  readonly promisedGiB: number;
  /** Part of the memory that stays free which this cache may take besides. */
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
  /** Memory that can be used, after what the driver keeps. */
  readonly capacityGiB: number;
  readonly terms: readonly MemoryTerm[];
  readonly needGiB: number;
  /** Stated error of the estimate: `tight` is a need within it of the capacity. */
  readonly errorGiB: number;
  readonly verdict: Verdict;
  /** One for each language model on it; fractions derive from them. */
  readonly kvCaches: readonly KvCacheClaim[];
  /** What the verdict does not say by itself, such as a KV cache that depends on the order of loading. */
  readonly notes: readonly string[];
  readonly alternatives: readonly Alternative[];
}
