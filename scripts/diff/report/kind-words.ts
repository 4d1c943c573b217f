import type { ChangeKind } from "../types.ts";

/** Each kind as people say it of a resource, in the order of a report. */
export const KIND_WORDS: Readonly<Record<ChangeKind, string>> = {
  replace: "replaced",
  "may-replace": "may be replaced",
  delete: "deleted",
  update: "updated",
  create: "created",
};
