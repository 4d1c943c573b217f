import { checkedPlan } from "../../infra/checked-plan.ts";
import { fromRuntimeConfig, type StackConfig } from "../../infra/config/config.ts";
import { locatedProblems } from "../../infra/config/stack-text.ts";
import { objectName } from "../../infra/plan/docker/host-objects.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { ConfigError } from "../../infra/problems.ts";
import { UsageError, UserError } from "../errors.ts";
import { explain } from "../plan/explain.ts";
import { devicePluginValues, mermaidChart } from "../plan/formats.ts";
import { planReport } from "../plan/report.ts";
import { prettyJson } from "../program/serialized.ts";
import { readStackFile, stackOptions, typedPath, withStackLines } from "../program/stack-file.ts";
import { highlighted } from "../terminal-text.ts";
import { defineCommand, EXIT } from "./command.ts";

export const command = defineCommand({
  options: {
    "--full":
      "every part of the plan: memory term by term, cost part by part, each vulnerability of the release",
    "--format <format>": {
      text: "a picture of the stack as a Mermaid flowchart, which GitHub and GitLab draw in Markdown",
      choices: ["mermaid"],
    },
    "--json": "print JSON: {plan, warnings}; {problems} if the plan fails; both with lines of the file",
    "--explain <model>":
      "the commands behind one model, as a person would type them; `encoders` for the encoders",
    "--device-plugin-config":
      "the settings of NVIDIA's device plugin for the pools' machines, as values of its Helm chart",
  },
  notes: [
    "The plan reads only the stack file: nothing is contacted or changed. All problems of a stack file are printed at once, and end with exit code 1.",
  ],
  async run({ values, stack }) {
    const given = Object.keys(values).filter((name) => name in FORMS) as (keyof typeof FORMS)[];
    if (given.length > 1)
      throw new UsageError(`Choose one of ${given.map((name) => FORMS[name]).join(" and ")}.`);
    try {
      const { values: written, leftOut } = readStackFile(stack);
      if (leftOut !== undefined) process.stderr.write(`${leftOut}\n`);
      const { plan, config, warnings } = checkedPlan(fromRuntimeConfig(written));
      const located = locatedProblems(warnings, stack.configFile);
      const reference = { name: stack.name, options: stackOptions(stack), file: typedPath(stack) };
      process.stdout.write(
        values.json === true
          ? prettyJson({ plan: withoutRepeats(plan), warnings: located.map(lineOrNull) })
          : values.format !== undefined
            ? mermaidChart(plan)
            : values.devicePluginConfig === true
              ? devicePluginValues(onGpus(plan, "--device-plugin-config", true))
              : values.explain !== undefined
                ? explain(onGpus(plan, "--explain"), values.explain, storeSource(stack.name, config))
                : highlighted(planReport(reference, plan, located, values.full === true)),
      );
      return EXIT.ok;
    } catch (error) {
      const located = withStackLines(error, stack);
      if (values.json !== true || !(located instanceof ConfigError)) throw located;
      // A script reads only standard output, so problems are written there too.
      process.stdout.write(prettyJson({ problems: located.problems.map(lineOrNull) }));
      return EXIT.failed;
    }
  },
});

/** Forms of output, by option. */
const FORMS = {
  full: "--full",
  format: "--format",
  json: "--json",
  explain: "--explain",
  devicePluginConfig: "--device-plugin-config",
} as const;

const lineOrNull = <Located extends { line?: number }>({ line, ...problem }: Located) => ({
  ...problem,
  line: line ?? null,
});

/** Each model of a plan has its own specification, so the stack's is left out. */
function withoutRepeats(plan: StackPlan): object {
  if (plan.tier === "cpu") return plan;
  const { models: _repeated, ...spec } = plan.spec;
  return { ...plan, spec };
}

function onGpus(plan: StackPlan, option: string, inCluster = false): Extract<StackPlan, { tier: "gpu" }> {
  if (plan.tier === "gpu" && (!inCluster || "cluster" in plan)) return plan;
  throw new UserError(
    inCluster
      ? `${option} is for stacks on GPUs in a cluster.`
      : `A stack on a CPU builds no engine; ${option} is for stacks on GPUs.`,
  );
}

/** Source of a person's mount at /store: a folder of the machine, or the volume of a stack on Docker. */
function storeSource(stack: string, config: StackConfig): string {
  if (config.platform !== "docker" || config.tier !== "gpu") return "/var/lib/engine-room/store";
  return config.engineStore.path ?? objectName(stack, "store");
}
