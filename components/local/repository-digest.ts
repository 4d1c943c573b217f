/** The identity of a model repository's content, computed by the program so that a preview knows it. */
import { createHash } from "node:crypto";
import type { ModelRepositoryInputs } from "./types.ts";

/**
 * SHA-256, 64 hex digits, over files and artifacts as JSON with sorted keys. Same content, same digest, whatever the
 * order in which it was listed and wherever the repository lies.
 */
export function repositoryDigest(content: Pick<ModelRepositoryInputs, "files" | "artifacts">): string {
  return jsonDigest({ files: content.files, artifacts: content.artifacts });
}

/** SHA-256 over `canonicalJson`, 64 hex digits. */
export function jsonDigest(value: unknown): string {
  return createHash("sha256").update(canonicalJson(value)).digest("hex");
}

/** JSON whose objects have their keys in order of code units, without members that are undefined. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
