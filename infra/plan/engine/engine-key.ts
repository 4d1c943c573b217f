/** The content address of an engine. */
import { jsonDigest } from "../canonical-json.ts";
import type { EngineKeyFields } from "./types.ts";

/** SHA-256 over the sorted JSON of all that an engine depends on, 64 hexadecimal digits. */
export function engineKey(fields: EngineKeyFields): string {
  return jsonDigest(fields);
}

/** The first 12 digits, as paths and names carry them. */
export function shortKey(key: string): string {
  return key.slice(0, 12);
}
