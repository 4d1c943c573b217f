/** What a tree's own code says of a stack, checked on the way in: older code says less, and says it in older forms. */
import { z } from "zod";
import type { Problem } from "../../infra/problems.ts";

const problem = z.object({
  path: z.string(),
  value: z.string().default(""),
  reason: z.string(),
  fix: z.string().default(""),
});

const options = z.object({
  protect: z.boolean().default(false),
  retainOnDelete: z.boolean().default(false),
  deleteBeforeReplace: z.boolean().optional(),
  ignoreChanges: z.array(z.string()).default([]),
  replaceOnChanges: z.array(z.string()).default([]),
  /** URNs, or JSON of the SDK's specification of an alias. */
  aliases: z.array(z.string()).default([]),
  replacementTrigger: z.unknown().optional(),
  /** URN; children go with it too, which have no option of their own. */
  deletedWith: z.string().optional(),
});

const resource = z.object({
  type: z.string(),
  name: z.string(),
  urn: z.string(),
  parent: z.string().default(""),
  custom: z.boolean(),
  inputs: z.record(z.string(), z.unknown()).default({}),
  /** URNs by input. */
  propertyDependencies: z.record(z.string(), z.array(z.string())).default({}),
  /** URN of an explicit provider. */
  provider: z.string().optional(),
  /** Of a resource that is only read. */
  readId: z.string().optional(),
  options: options.prefault({}),
});

export type GraphResource = Readonly<z.infer<typeof resource>>;

const graph = z.object({
  resources: z.array(resource),
  outputs: z.record(z.string(), z.unknown()).default({}),
});

const engine = z.object({
  model: z.string(),
  key: z.string(),
  shortKey: z.string(),
  keyFields: z.object({
    model: z.string(),
    weights: z.string(),
    revision: z.string(),
    code: z.string().exactOptional(),
    tensorRtLlm: z.string(),
    tensorRt: z.string(),
    gpu: z.string(),
    dtype: z.string(),
    quantization: z.string(),
    tensorParallel: z.number(),
    pipelineParallel: z.number(),
    steps: z.record(z.string(), z.array(z.string())),
  }),
});

const build = z.object({
  engine: z.string(),
  seconds: z.number(),
  usd: z.number().nullable(),
  arithmetic: z.string().exactOptional(),
});

/** Of a plan, what is compared. */
const plan = z.object({
  models: z.array(
    z.object({
      name: z.string(),
      engine: engine.nullable(),
      coldStart: z.object({ seconds: z.number() }),
    }),
  ),
  fit: z.array(
    z.object({
      pool: z.string(),
      gpu: z.string(),
      tenants: z.array(z.string()),
      capacityGiB: z.number(),
      needGiB: z.number(),
      verdict: z.enum(["fits", "tight", "doesNotFit"]),
    }),
  ),
  cost: z.object({
    hourlyUsd: z.number().nullable(),
    monthlyUsd: z.number().nullable(),
    asleepMonthlyUsd: z.number().nullable(),
    lines: z
      .array(
        z
          .object({ hourlyUsd: z.number().nullable(), asleepHourlyUsd: z.number().nullish() })
          // Older code says of no line what is left of it asleep.
          .transform(({ hourlyUsd, asleepHourlyUsd = hourlyUsd }) => ({ hourlyUsd, asleepHourlyUsd })),
      )
      .default([]),
    builds: z.array(build),
  }),
});

/** The compared parts of a plan. */
export type ComparablePlan = z.infer<typeof plan> & {
  /** Advisories, ends of life and others. */
  readonly warnings: readonly Problem[];
  readonly problems: readonly Problem[];
};

const rendered = z.object({
  graph: graph.nullable().default(null),
  /** Why there is no graph though there is a plan. */
  failure: z.string().nullable().default(null),
  /** Checked apart: a form of it that is not known must not hide the graph. */
  plan: z.unknown().optional(),
  warnings: z.array(problem).default([]),
  problems: z.array(problem).default([]),
});

/** Of a plan, what is an output of its stack too: infra/outputs.ts. */
const plannedStack = z.object({
  cost: z.object({
    hourlyUsd: z.number().nullable(),
    withoutPrice: z.array(z.string()).exactOptional(),
  }),
  release: z.union([z.string(), z.object({ tag: z.string() }).transform(({ tag }) => tag)]),
  models: z.array(z.object({ name: z.string(), engine: z.object({ key: z.string() }).nullish() })),
});

/** What rules about outputs read. null: it is no plan, or one of another form. */
function plannedOutputs(anyPlan: unknown): RenderedTree["outputs"] {
  const known = plannedStack.safeParse(anyPlan);
  if (!known.success) return null;
  const { cost, release, models } = known.data;
  return {
    cost,
    models: models.map(({ name, engine }) => ({ name, release, engineKey: engine?.key ?? null })),
  };
}

/** One side of a comparison. */
export interface RenderedTree {
  /** null: there is no graph, for `failure` or `problems`. */
  readonly resources: readonly GraphResource[] | null;
  /** Of the stack; without a graph what the plan knows of them; null without either. */
  readonly outputs: Readonly<Record<string, unknown>> | null;
  /** Whether secrets carry marks by which they can be told apart. */
  readonly hasMarks: boolean;
  readonly failure: string | null;
  /** null: there is none, it has no engines, or it has another form. */
  readonly plan: ComparablePlan | null;
  readonly problems: readonly Problem[];
}

/**
 * @param text - JSON of `scripts/diff/render-child.ts`.
 * @throws SyntaxError or ZodError where it is something else.
 */
export function parseRenderedTree(text: string, hasMarks: boolean): RenderedTree {
  const { graph: found, failure, plan: anyPlan, warnings, problems } = rendered.parse(JSON.parse(text));
  const known = plan.safeParse(anyPlan);
  return {
    resources: found?.resources ?? null,
    outputs: found?.outputs ?? plannedOutputs(anyPlan),
    hasMarks,
    failure,
    plan: known.success ? { ...known.data, warnings, problems } : null,
    problems,
  };
}

/** A tree of which there is nothing. */
export function unrendered(failure: string): RenderedTree {
  return { resources: null, outputs: null, hasMarks: false, failure, plan: null, problems: [] };
}
