/** Kinds of databases against what they need; looks at raw values. */
import { type Problem, showValue } from "../problems.ts";

/** @param needed - Keys of `externalDatabases` that the platform wants, as a list for people. */
export function externalDatabaseProblems(
  { databases, externalDatabases }: Readonly<Record<string, unknown>>,
  needed: string,
): Problem[] {
  if (databases === "external" && externalDatabases === undefined) {
    return [
      {
        path: "externalDatabases",
        value: showValue(externalDatabases),
        reason: "databases: external needs to know where they are.",
        fix: `Add externalDatabases with ${needed}.`,
      },
    ];
  }
  if (databases !== "external" && externalDatabases !== undefined) {
    return [
      {
        path: "externalDatabases",
        value: "(set)",
        reason: "Only databases: external uses them.",
        fix: "Write databases: external, or remove externalDatabases.",
      },
    ];
  }
  return [];
}
