import { canonicalJson } from "../infra/plan/plain-data.ts";

/** Sorted keys, two spaces, and a final newline. */
export function prettyJson(value: unknown): string {
  return `${JSON.stringify(JSON.parse(canonicalJson(value)), null, 2)}\n`;
}
