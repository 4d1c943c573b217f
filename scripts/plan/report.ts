/** A plan as text for people; the same plan, the same bytes. */
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import type { Problem } from "../../infra/problems.ts";
import { awsSection } from "./aws-section.ts";
import { costSection } from "./cost-section.ts";
import { cpuSections } from "./cpu-sections.ts";
import { encoderSection, engineSection, servingSection } from "./engine-section.ts";
import { fitSection } from "./fit-section.ts";
import { operationsSection } from "./operations-section.ts";
import { coldStartSection } from "./start-section.ts";
import { summaryLines } from "./summary.ts";
import { PAGE_COLUMNS, paragraph, type Section, wrapText } from "./text-table.ts";

/**
 * All that a plan decides, in sections: what most want to know first, and what to do next last, if there is anything.
 *
 * @param stack - Its name, and the options by which commands know it: `--stack dev`.
 * @returns Lines of at most {@link PAGE_COLUMNS} characters, but for single words that are longer, and a command.
 */
export function planReport(
  stack: { readonly name: string; readonly options: string },
  plan: StackPlan,
  warnings: readonly Problem[],
): string {
  const sections =
    plan.tier === "cpu"
      ? cpuSections(plan)
      : [
          engineSection(plan),
          servingSection(plan),
          ...encoderSection(plan),
          fitSection(plan),
          costSection(plan),
          coldStartSection(plan),
        ];
  const all = [
    ...sections,
    ...operationsSection(stack.name, plan),
    ...awsSection(plan),
    ...warningSection(warnings),
  ];
  const heading = wrapText(`Stack ${stack.name}: ${summary(plan)}`, PAGE_COLUMNS);
  const next = plan.platform === "local" ? [] : ["", `Next: npx engine-room preflight ${stack.options}`];
  const text = [
    ...heading,
    ...summaryLines(plan),
    ...all.flatMap(({ title, lines }) => ["", title, ...lines]),
  ];
  return `${[...text, ...next].join("\n")}\n`;
}

function summary(plan: StackPlan): string {
  if (plan.tier === "cpu") {
    return `platform ${plan.platform}${plan.platform === "local" ? "" : ", tier cpu"}, ${plan.release}`;
  }
  const { tag, tensorRtLlm, tensorRt } = plan.release;
  const where = plan.spec.region === null ? "" : ` in ${plan.spec.region}`;
  return `platform ${plan.platform}${where}, release ${tag} (TensorRT-LLM ${tensorRtLlm}, TensorRT ${tensorRt ?? "unknown"})`;
}

/** Several warnings about one key stand below it, each a point. */
function warningSection(warnings: readonly Problem[]): Section[] {
  if (warnings.length === 0) return [];
  const byKey = new Map<string, Problem[]>();
  for (const warning of warnings) {
    const key = `${warning.path} = ${warning.value}`;
    byKey.set(key, [...(byKey.get(key) ?? []), warning]);
  }
  const lines = [...byKey].flatMap(([key, about]) => [...paragraph(key), ...about.flatMap(point)]);
  return [{ title: `Warnings (${warnings.length})`, lines }];
}

function point({ reason, fix }: Problem): string[] {
  const [first = "", ...rest] = paragraph(reason, 6);
  return [`    - ${first.trimStart()}`, ...rest, ...paragraph(fix, 6)];
}
