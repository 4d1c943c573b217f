/** What a tree's own code says of a stack, in a process of its own, checked on the way in: older code says less. */
import { readFile, realpath } from "node:fs/promises";
import { join } from "node:path";
import { ZodError, z } from "zod";
import { exists } from "../../components/local/provider/files.ts";
import type { Problem } from "../../infra/problems.ts";
import { UserError } from "../errors.ts";
import { runProcess } from "./base-tree.ts";

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

const TIMEOUT_SECONDS = 120;

/** Of a text of any program. */
const MOST_FAILURE_CHARACTERS = 500;

/** Relative to the project. */
const CHILD = "scripts/diff/render-child.ts";

/** What a program needs to run; tokens and passphrases of the caller are none of it. */
const PASSED_ON = ["PATH", "HOME", "TMPDIR", "LANG", "TZ", "XDG_CACHE_HOME", "ENGINE_ROOM_CACHE_DIR"];

interface RenderRequest {
  /** Absolute path of a project with its npm packages. */
  readonly project: string;
  readonly stack: string;
  /** Absolute path. */
  readonly configFile: string;
  /** Of this comparison: secrets that differ get marks that differ. */
  readonly secretKey: string;
  /** Absolute path of a file that is not there yet. */
  readonly out: string;
}

/** A tree that can't be rendered says why in `failure`; nothing is thrown for what its code does. */
export async function renderTree(request: RenderRequest): Promise<RenderedTree> {
  const tree = await renderInto(request).catch(unrenderedFor);
  const places = [request.project, await realpath(request.project)];
  const shown = (text: string) => withoutPlaces(text, places);
  return {
    ...tree,
    failure: tree.failure === null ? null : shown(tree.failure).slice(0, MOST_FAILURE_CHARACTERS),
    problems: tree.problems.map((found) => ({
      ...found,
      value: shown(found.value),
      reason: shown(found.reason),
      fix: shown(found.fix),
    })),
  };
}

async function renderInto({
  project,
  stack,
  configFile,
  secretKey,
  out,
}: RenderRequest): Promise<RenderedTree> {
  if (!(await exists(join(project, CHILD))))
    throw new UserError(`It has no ${CHILD}: it is older than \`diff\`.`);
  const passedOn = Object.entries(process.env).filter(([name]) => PASSED_ON.includes(name));
  const { exitCode, stderr } = await runProcess(
    process.execPath,
    ["loader/run.mjs", CHILD, stack, configFile, out],
    {
      cwd: project,
      environment: { ...Object.fromEntries(passedOn), ENGINE_ROOM_SECRET_MARK_KEY: secretKey },
      timeoutSeconds: TIMEOUT_SECONDS,
    },
  );
  if (exitCode !== 0)
    throw new UserError(`Its program ended with exit code ${exitCode}: ${errorMessage(stderr)}`);
  return parseRenderedTree(await readFile(out, "utf8"), true);
}

function unrenderedFor(error: unknown): RenderedTree {
  if (error instanceof UserError) return unrendered(error.message);
  if (error instanceof SyntaxError || error instanceof ZodError)
    return unrendered("What its program prints of the stack has a form that can't be read.");
  throw error;
}

/** The message of an error, without the stack trace that Node prints below it. */
function errorMessage(stderr: string): string {
  const lines = stderr.split("\n").filter((line) => line.trim() !== "");
  const message = lines.findLast((line) => /^(\w*Error\b.*: |\s+\d+\. )/.test(line)) ?? lines.at(-1);
  return message?.trim() ?? "it said nothing.";
}

/** A tree and its packages lie somewhere else each time: paths are shown as they are in the tree. */
function withoutPlaces(text: string, places: readonly string[]): string {
  return places
    .flatMap((place) => [`file://${place}/`, `${place}/`])
    .reduce((shown, place) => shown.replaceAll(place, ""), text)
    .replaceAll(/(?:file:\/\/)?\/[^\s"'`]*\/node_modules\//g, "node_modules/");
}
