/** Where a model's weights come from. */
import type { GpuModelConfig } from "../../config/gpu-models.ts";
import type { HubSource } from "../catalogue/types.ts";
import type { WeightsSource } from "../spec.ts";
import type { Report } from "./names.ts";

/** Stands for what is missing, so that the checks which don't look at it still run. */
const MISSING = "(missing)";

/**
 * The source of the catalogue's row, or the stack file's own. A commit belongs to its repository: another repository needs
 * another commit.
 */
export function resolveWeights(
  weights: GpuModelConfig["weights"],
  source: HubSource,
  path: string,
  report: Report,
): WeightsSource {
  const own = weights ?? { from: "hub" as const };
  switch (own.from) {
    case "hub": {
      const repository = own.repository ?? source.repository;
      const revision = own.revision ?? (repository === source.repository ? source.revision : null);
      if (revision === null) {
        report("model", ["models.model", "models.weights", "catalogue"], {
          path: `${path}.weights.revision`,
          reason: `No commit of ${repository} is known, and what its branch holds may change between two builds.`,
          fix: `Write \`weights: { from: hub, revision: COMMIT }\` with the 40 digits that https://huggingface.co/${repository}/commits/main shows.`,
        });
      }
      return { kind: "hub", repository, revision: revision ?? MISSING };
    }
    case "modelscope": {
      const repository = own.repository ?? source.modelScope;
      if (repository === undefined) {
        report("model", ["models.model", "models.weights", "catalogue"], {
          path: `${path}.weights.repository`,
          reason: `The catalogue knows no copy of ${source.repository} on ModelScope.`,
          fix: "Name one in weights.repository, or leave `weights` out to download from Hugging Face.",
        });
      }
      return { kind: "modelscope", repository: repository ?? MISSING, revision: own.revision };
    }
    case "s3":
      return { kind: "s3", uri: own.uri, revision: own.revision };
    case "folder":
      return { kind: "folder", path: own.path, revision: own.revision };
  }
}
