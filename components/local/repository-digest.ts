/** The identity of a model repository's content, computed by the program so that a preview knows it. */
import { jsonDigest } from "../../infra/plan/canonical-json.ts";
import type { ModelRepositoryInputs } from "./types.ts";

/**
 * SHA-256, 64 hex digits, over files and artifacts as JSON with sorted keys. Same content, same digest, whatever the
 * order in which it was listed and wherever the repository lies.
 */
export function repositoryDigest(content: Pick<ModelRepositoryInputs, "files" | "artifacts">): string {
  return jsonDigest({ files: content.files, artifacts: content.artifacts });
}
