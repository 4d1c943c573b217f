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

/** The same, where a stack may have no encoders. */
export function remoteDatabaseProblems(values: Readonly<Record<string, unknown>>, needed: string): Problem[] {
  const { databases, encoders } = values;
  if (encoders === false && databases !== undefined && databases !== "mock") {
    return [
      {
        path: "databases",
        value: showValue(databases),
        reason: "Documents are found by vectors, which encoders make, and encoders is false.",
        fix: "Remove it, or give the stack encoders.",
      },
    ];
  }
  return externalDatabaseProblems(values, needed);
}
