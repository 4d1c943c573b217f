/** Releases get fixes: for a runtime that upstream has given up, no new one comes, whatever is found in it. */
import { isReleaseTag, releases } from "../../infra/plan/catalogue/releases.ts";
import type { Release } from "../../infra/plan/catalogue/types.ts";
import { type Finding, type Rule, UNKNOWN, undecided } from "../rule.ts";
import { at, listAt, textAt } from "../values.ts";

export const releaseHasFixes: Rule = {
  description: "No model runs on a release and runtime that upstream has given up.",
  scope: "outputs",
  check({ outputs }): readonly Finding[] {
    if (outputs.models === UNKNOWN) return [{ resource: null, ...undecided("models") }];
    return listAt(outputs, "models").flatMap((model): readonly Finding[] => {
      const tag = textAt(model, "release") ?? "";
      // Whoever runs without an engine says so by its absence; what `tier: cpu` runs is no release.
      const key = at(model, "engineKey");
      if (tag === UNKNOWN || key === UNKNOWN)
        return [{ resource: null, ...undecided(`the release of ${textAt(model, "name") ?? "a model"}`) }];
      if (!isReleaseTag(tag)) return [];
      const { endOfLife = [] }: Release = releases[tag];
      const runtime = typeof key === "string" ? "engine" : "llmapi";
      return endOfLife
        .filter((end) => end.runtime === runtime)
        .map(({ statement, source }) => ({
          resource: null,
          reason: `${textAt(model, "name") ?? "A model"} runs on ${tag} with runtime ${runtime}: ${statement} ${source}`,
          fix: "Move text models to `runtime: llmapi` on a newer release; else let nobody but the gateway reach Triton's own ports.",
        }));
    });
  },
};
