import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../../infra/checked-plan.ts";
import { parseConfig } from "../../../../infra/config/config.ts";
import type { GpuPlan } from "../../../../infra/plan/gpu-stack.ts";
import { canonicalJson } from "../../../../infra/plan/plain-data.ts";
import { planStack } from "../../../../infra/plan/plan-stack.ts";
import type { StackPlan } from "../../../../infra/plan/stack-plan.ts";
import { ConfigError } from "../../../../infra/problems.ts";
import { times } from "../../../harness/thorough.ts";
import { problemsThrownBy } from "../../thrown-problems.ts";
import {
  brokenStackValues,
  ec2Values,
  HUB_TOKEN,
  type StackValues,
  stackValues,
  withChange,
} from "./arbitraries.ts";
import { type Invariant, type InvariantName, invariants } from "./invariants.ts";

const RUNS = times(100, 600);

/** Least number of plans in a run. */
const LEAST_PLANNED = times(10, 40);

function gpuPlan(plan: StackPlan | null): GpuPlan | null {
  return plan === null || plan.tier === "cpu" ? null : plan;
}

function brokenInvariants(plan: GpuPlan): readonly string[] {
  return Object.entries<Invariant>(invariants).flatMap(([name, invariant]) =>
    invariant(plan, [HUB_TOKEN]).map((sentence) => `${name}: ${sentence}`),
  );
}

/** For each invariant a place of a plan, and a value there that breaks it. Places of `models` are of a LLaVA, then a GPT-2. */
const breakages: Readonly<Record<InvariantName, readonly [place: string, value: unknown]>> = {
  "ranks are tensor times pipeline parallel, everywhere, and fit one machine": [
    "models.0.engine.worldSize",
    2,
  ],
  "heads divide by tensor parallel": ["models.1.spec.engine.tensorParallel", 3],
  "Triton's batch is at most the engine's": ["models.1.spec.engine.limits.maxBatchSize", 0],
  "visual tokens are batch times features times images": ["models.0.engine.visual.maxMultimodalTokens", 575],
  "a sequence is prompt and answer together, within the trained context": [
    "models.1.engine.maxSequenceTokens",
    1,
  ],
  "every template gets what it must have, and nothing that it does not know": [
    "models.1.repository.models.0.substitutions.colour",
    "blue",
  ],
  "no value holds a placeholder, a line break or nothing": [
    "models.1.repository.launch.ranks.0.2",
    "--http-port=undefined",
  ],
  "words of commands are not empty, and programs come first": ["models.1.engine.steps.0.argv.0", "--model"],
  "KV caches of a GPU that fits take no more than its memory together, in whatever order they load": [
    "fit.0.kvCaches.0.loadedBeforeGiB",
    -1000,
  ],
  "every model has a fraction above 0 and below 1": [
    "models.1.repository.models.3.substitutions.kv_cache_free_gpu_mem_fraction",
    "1",
  ],
  "keys are equal exactly if their fields are": ["models.1.engine.key", sameAs("models.0.engine.key")],
  "a key is the hash of its fields": ["models.1.engine.keyFields.revision", "another"],
  "an engine's folder is its own, and its halves lie apart": [
    "models.0.engine.places.vision",
    sameAs("models.0.engine.places.llm"),
  ],
  "names of objects fit a Kubernetes label": ["models.1.engine.model", "m".repeat(51)],
  "engines are built by the GPU that runs them": ["spec.pools.0.gpu.name", "L4"],
  "the GPU computes the model's formats": ["models.1.spec.engine.quantization", "fp8"],
  "streaming models are decoupled, all of their folders alike": ["models.1.repository.decoupled", false],
  "KV cache is reused with images only if the stack file says so": [
    "models.0.repository.models.3.substitutions.enable_kv_cache_reuse",
    "True",
  ],
  "clients ask a model that the repository has": ["models.1.repository.clientModel", "nobody"],
  "what does not fit was accepted": ["fit.0.verdict", "doesNotFit"],
  "sums are finite and no month asleep costs more than one awake": ["cost.asleepMonthlyUsd", 1e9],
  "no credential is in the plan": ["models.1.coldStart.model", HUB_TOKEN],
};

/** The value of another place. */
function sameAs(place: string) {
  return (plan: GpuPlan) => valueAt(plan, place);
}

function valueAt(tree: unknown, place: string): unknown {
  return place.split(".").reduce<unknown>((inner, key) => (inner as Record<string, unknown>)[key], tree);
}

function withValue(plan: GpuPlan, place: string, value: unknown): GpuPlan {
  const copy = structuredClone(plan);
  const keys = place.split(".");
  const holder = valueAt(copy, keys.slice(0, -1).join(".")) as Record<string, unknown>;
  holder[keys.at(-1) ?? ""] = typeof value === "function" ? value(plan) : value;
  return copy;
}

describe("every invariant", () => {
  const { plan } = checkedPlan({
    platform: "docker",
    engines: { whenFull: "stopServer" },
    host: { instanceType: "g5.12xlarge" },
    models: [
      { name: "llava", model: "llava-1.5-7b", flavour: "multimodal" },
      { name: "gpt", model: "gpt2-medium" },
    ],
  });

  test.each(Object.entries(breakages) as [InvariantName, readonly [string, unknown]][])(
    'the invariant "%s" fails for a plan that breaks it',
    (name, [place, value]) => {
      const sound = gpuPlan(plan) as GpuPlan;
      const holds: Invariant = invariants[name];
      expect(holds(sound, [HUB_TOKEN])).toEqual([]);
      expect(holds(withValue(sound, place, value), [HUB_TOKEN])).not.toEqual([]);
    },
  );
});

test("a stack file without problems has a plan that holds every invariant, and the same plan each time", () => {
  let planned = 0;
  fc.assert(
    fc.property(stackValues, (values) => {
      const config = parseConfig(values);
      const first = planStack(config);
      const plan = gpuPlan(first.plan);
      expect(plan === null).toBe(first.problems.length > 0);
      expect(canonicalJson(planStack(parseConfig(structuredClone(values))))).toBe(canonicalJson(first));
      if (plan === null) return;
      planned += 1;
      expect(brokenInvariants(plan)).toEqual([]);
    }),
    { numRuns: RUNS },
  );
  expect(planned).toBeGreaterThan(LEAST_PLANNED);
});

test("a stack file with any mistakes ends in a plan or in a ConfigError that shows no credential", () => {
  fc.assert(
    fc.property(brokenStackValues, (values: StackValues) => {
      const message = messageOf(() => checkedPlan(values));
      expect(message ?? "").not.toContain(HUB_TOKEN);
    }),
    { numRuns: RUNS },
  );
});

/** No key of the schema takes it. */
const NONSENSE = -1.5;

test("a value of a wrong kind is the only problem: no check judges the rest by it", () => {
  let tried = 0;
  fc.assert(
    fc.property(stackValues, fc.array(fc.nat(), { minLength: 3, maxLength: 3 }), (values, seeds) => {
      if (planStack(parseConfig(values)).problems.length > 0) return;
      tried += 1;
      for (const seed of seeds) expectAlone(withChange(values, [seed, NONSENSE]));
    }),
    { numRuns: RUNS },
  );
  expect(tried).toBeGreaterThan(LEAST_PLANNED);
});

// The rest is then read as one of two, and much holds for one of them only.
test("a wrong `compute` is the only problem, whether the rest is for a cluster or a machine", () => {
  let tried = 0;
  fc.assert(
    fc.property(ec2Values, (values) => {
      if (planStack(parseConfig(values)).problems.length > 0) return;
      tried += 1;
      expectAlone({ ...values, compute: NONSENSE });
    }),
    { numRuns: RUNS },
  );
  expect(tried).toBeGreaterThan(LEAST_PLANNED);
});

function expectAlone(values: StackValues): void {
  const problems = problemsThrownBy(() => checkedPlan(values));
  expect(problems.map(({ value }) => value)).toEqual([expect.stringMatching(/^(-1\.5|\[secret\])$/)]);
}

/** Message of the ConfigError; null without an error. */
function messageOf(act: () => unknown): string | null {
  try {
    act();
    return null;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const { path, value, reason, fix } of error.problems) {
      expect([path, value, reason, fix].every((text) => text !== "")).toBe(true);
      // Quoted text is the stack file's own, and may contain anything.
      const ours = [reason, fix].map((text) => text.replaceAll(/"[^"]*"/g, ""));
      expect(ours.filter((text) => /undefined|NaN/.test(text))).toEqual([]);
    }
    return error.message;
  }
}
