/** The JSON of `npx engine-room diff`, checked where it comes from a program that nobody has to believe. */
import { z } from "zod";
import { UserError } from "../errors.ts";
import type { StackDiff } from "./types.ts";

const text = z.string().max(100_000);
const name = z.string().max(500);
const amount = z.number();

const problem = z.strictObject({ path: text, value: text, reason: text, fix: text });

const tree = z.strictObject({
  ref: name.nullable(),
  commit: name.nullable(),
  hasStack: z.boolean(),
  failure: text.nullable(),
  problems: z.array(problem),
});

const inputs = z.record(z.string(), z.unknown()).nullable();

const resource = z.strictObject({
  kind: z.enum(["create", "update", "replace", "may-replace", "delete"]),
  type: name,
  name,
  urn: text,
  label: text,
  properties: z.array(
    z.strictObject({
      path: text,
      kind: z.enum(["add", "update", "delete"]),
      before: text.exactOptional(),
      after: text.exactOptional(),
      effect: z.enum(["update", "replace", "may-replace"]).nullable(),
    }),
  ),
  before: inputs,
  after: inputs,
  kept: z.enum(["protected", "retained"]).nullable(),
  deletedFirst: z.boolean().nullable(),
});

const fit = z
  .strictObject({
    gpu: name,
    verdict: z.enum(["fits", "tight", "doesNotFit"]),
    needGiB: amount,
    capacityGiB: amount,
  })
  .nullable();

const engineNeed = z.strictObject({ model: name, engine: name, elsewhere: z.boolean() });
const changedProblems = z.strictObject({ appeared: z.array(problem), gone: z.array(problem) });

const sum = z.strictObject({ usd: amount.nullable(), isAtLeast: z.boolean() });

const plan = z.strictObject({
  engines: z.strictObject({
    added: z.array(engineNeed),
    removed: z.array(engineNeed),
    rebuilt: z.array(
      z.strictObject({
        model: name,
        before: name,
        after: name,
        reasons: z.array(
          z.strictObject({ field: text, before: text.nullable(), after: text.nullable(), sentence: text }),
        ),
      }),
    ),
    unchanged: z.array(name),
  }),
  fit: z.array(z.strictObject({ pool: name, tenants: z.array(name), before: fit, after: fit })),
  cost: z.array(
    z.strictObject({
      what: z.enum(["hourlyUsd", "monthlyUsd", "asleepMonthlyUsd"]),
      before: sum.nullable(),
      after: sum,
    }),
  ),
  newBuilds: z.array(
    z.strictObject({
      engine: name,
      seconds: amount,
      usd: amount.nullable(),
      arithmetic: text.exactOptional(),
    }),
  ),
  newBuildUsd: amount,
  coldStarts: z.array(
    z.strictObject({ model: name, beforeSeconds: amount.nullable(), afterSeconds: amount.nullable() }),
  ),
  warnings: changedProblems,
  problems: changedProblems,
});

/** Of one stack; refuses what has other keys, or texts of no use. */
const stackDiffSchema: z.ZodType<StackDiff> = z.strictObject({
  stack: name,
  source: z.enum(["rendered", "pulumi-preview"]),
  base: tree,
  head: tree,
  resources: z.array(resource).nullable(),
  unchanged: z.int().min(0),
  plan: plan.nullable(),
  secrets: z.array(z.strictObject({ path: text, kind: z.enum(["add", "update", "delete"]) })),
  violations: z.array(
    z.strictObject({
      policy: name,
      level: z.enum(["advisory", "mandatory"]),
      resource: text.nullable(),
      reason: text,
      fix: text,
      isNew: z.boolean().nullable(),
    }),
  ),
  uncheckedPolicies: z.array(name),
});

/**
 * @param what - Where it is from, for the error.
 * @throws UserError where it is no JSON of `npx engine-room diff`.
 */
export function parsedDiff(what: string, bytes: Buffer): StackDiff {
  try {
    return stackDiffSchema.parse(JSON.parse(bytes.toString("utf8")));
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof z.ZodError)) throw error;
    throw new UserError(`${what} is not what \`npx engine-room diff\` writes.`);
  }
}
