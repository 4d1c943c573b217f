/** From nothing to the first answer. */
import type { ColdStart } from "../../infra/plan/cost/types.ts";
import type { GpuPlan } from "../../infra/plan/gpu-stack.ts";
import { duration, figure, type Section, textTable } from "./text-table.ts";

const STEPS: Readonly<Record<ColdStart["steps"][number]["what"], string>> = {
  node: "machine",
  imagePull: "image",
  engineCopy: "engine copy",
  load: "load",
};

/** Every step of every model, and their sums. */
export function coldStartSection({ models }: GpuPlan): Section {
  const columns = [
    { title: "MODEL" },
    { title: "STEP" },
    { title: "SECONDS", align: "right" },
    { title: "HOW" },
  ] as const;
  const rows = models.flatMap(({ name, coldStart }) => [
    ...coldStart.steps.map(({ what, seconds, arithmetic }, index) => [
      index === 0 ? name : "",
      STEPS[what],
      figure(seconds, 0),
      arithmetic,
    ]),
    ...sumRows(coldStart),
  ]);
  return { title: "Cold start, engine built (estimate)", lines: textTable(columns, rows) };
}

/** Without words where there is one case only. */
function sumRows({ seconds, onRunningMachine }: ColdStart): readonly (readonly string[])[] {
  const row = (sum: number, where: string) => ["", "sum", figure(sum, 0), `${duration(sum)}${where}`];
  return [
    row(seconds, onRunningMachine.length === 0 ? "" : " on a new machine"),
    ...onRunningMachine.map((one) =>
      row(one.seconds, ` on a machine that runs${one.hasImage ? " and has the image" : ""}`),
    ),
  ];
}
