import { checkedPlan } from "../../infra/checked-plan.ts";
import { fromRuntimeConfig, type StackConfig } from "../../infra/config/config.ts";
import { objectName } from "../../infra/plan/docker/host-objects.ts";
import type { ClusterGpuPlan, GpuPlan } from "../../infra/plan/gpu-stack.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { ConfigError, nearestName } from "../../infra/problems.ts";
import { UsageError, UserError } from "../errors.ts";
import { devicePluginValues } from "../plan/device-plugin-values.ts";
import { explain, explainableNames } from "../plan/explain.ts";
import { mermaidChart } from "../plan/mermaid.ts";
import { planReport } from "../plan/report.ts";
import { prettyJson } from "../pretty-json.ts";
import { readStackFile, type StackReference, stackOptions, withStackLines } from "../program/stack-file.ts";
import { defineCommand, EXIT } from "./command.ts";

/** Where weights and engines lie on a machine that the stack doesn't describe. */
const DEFAULT_STORE_PATH = "/var/lib/engine-room/store";

export const command = defineCommand({
  options: {
    "--full":
      "every part of the plan: memory term by term, cost part by part, each vulnerability of the release",
    "--format <format>": {
      text: "a picture of the stack as a Mermaid flowchart, which GitHub and GitLab draw in Markdown",
      choices: ["mermaid"],
    },
    "--json": "print JSON: {plan, warnings}; {problems}, with their lines, where the plan fails",
    "--explain <model>":
      "the commands behind one model, as a person would type them; `encoders` for the encoders",
    "--device-plugin-config":
      "the settings of NVIDIA's device plugin for the pools' machines, as values of its Helm chart",
  },
  notes: [
    "Read from the stack file alone: nothing is contacted or changed. All problems of a stack file are printed at once, and end with exit code 1.",
  ],
  async run({ values, stack }) {
    refuseCombinations(values);
    const read = () => {
      const { values: written, leftOut } = readStackFile(stack);
      if (leftOut !== undefined) process.stderr.write(`${leftOut}\n`);
      return fromRuntimeConfig(written);
    };
    if (values.json === true) return printJson(stack, read);
    const { plan, config, warnings } = checkedPlan(read());
    if (values.devicePluginConfig === true) {
      process.stdout.write(devicePluginValues(clusterGpuPlan(plan)));
      return EXIT.ok;
    }
    if (values.format === "mermaid") {
      process.stdout.write(mermaidChart(plan));
      return EXIT.ok;
    }
    const { explain: name } = values;
    process.stdout.write(
      name !== undefined
        ? explained(gpuPlan(plan), storeSource(stack.name, config), name)
        : planReport(
            { name: stack.name, options: stackOptions(stack) },
            plan,
            warnings,
            values.full === true,
          ),
    );
    return EXIT.ok;
  },
});

/** Of a stack, as the program gets them. */
type StackValues = Readonly<Record<string, unknown>>;

/** What is printed, by option. */
const FORMS = {
  full: "--full",
  format: "--format",
  json: "--json",
  explain: "--explain",
  devicePluginConfig: "--device-plugin-config",
} as const;

function refuseCombinations(
  values: Readonly<Record<keyof typeof FORMS, string | boolean | undefined>>,
): void {
  const given = Object.entries(FORMS).filter(([name]) => values[name as keyof typeof FORMS] !== undefined);
  if (given.length > 1) throw new UsageError(`Choose one of ${given.map(([, flag]) => flag).join(" and ")}.`);
}

/** A script reads standard output alone, so problems are part of what it gets. */
function printJson(stack: StackReference, read: () => StackValues): number {
  try {
    const { plan, warnings } = checkedPlan(read());
    process.stdout.write(prettyJson({ plan: withoutRepeats(plan), warnings }));
    return EXIT.ok;
  } catch (error) {
    const located = withStackLines(error, stack);
    if (!(located instanceof ConfigError)) throw located;
    const problems = located.problems.map(({ line = null, ...problem }) => ({ ...problem, line }));
    process.stdout.write(prettyJson({ problems }));
    return EXIT.failed;
  }
}

/** Each model of a plan carries its own specification, so that of the stack need not repeat it. */
function withoutRepeats(plan: StackPlan): object {
  if (plan.tier === "cpu") return plan;
  const { models: _repeated, ...spec } = plan.spec;
  return { ...plan, spec };
}

function gpuPlan(plan: StackPlan): GpuPlan {
  if (plan.tier === "gpu") return plan;
  throw new UserError("A stack on a CPU builds no engine; --explain is for stacks on GPUs.");
}

function clusterGpuPlan(plan: StackPlan): ClusterGpuPlan {
  if (plan.tier === "gpu" && "cluster" in plan) return plan;
  throw new UserError("--device-plugin-config is for stacks on GPUs in a cluster.");
}

/** What a person mounts at /store: a folder of the machine, or the volume of a stack on Docker. */
function storeSource(stack: string, config: StackConfig): string {
  if (config.platform !== "docker" || config.tier !== "gpu") return DEFAULT_STORE_PATH;
  return config.engineStore.path ?? objectName(stack, "store");
}

function explained(plan: GpuPlan, store: string, name: string): string {
  const text = explain(plan, name, { storePath: store });
  if (text !== undefined) return text;
  const names = explainableNames(plan);
  const nearest = nearestName(name, names);
  const hint = nearest === undefined ? `Here are ${names.join(", ")}.` : `Did you mean ${nearest}?`;
  throw new UserError(`The stack has no model ${JSON.stringify(name)}. ${hint}`);
}
