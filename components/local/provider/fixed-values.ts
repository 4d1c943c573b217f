/** `local:index:FixedValues`: values whose change would replace another resource with an empty resource; refuses a change. */
import { z } from "zod";
import { resourceHandler } from "./contract.ts";

export const fixedValuesInputs = z.strictObject({
  /** The resource that would be replaced, as the start of a sentence: `The databases' disk`. */
  what: z.string(),
  /** By the names of that resource's properties. */
  values: z.record(z.string(), z.string()),
  /** Sentences about the steps instead. */
  fix: z.string(),
});

type FixedValues = z.infer<typeof fixedValuesInputs>;

export const fixedValues = resourceHandler<FixedValues, FixedValues>({
  schema: fixedValuesInputs,
  replaceOn: [],
  planned: {
    names: [],
    from: ["what", "values", "fix"],
    async choose({ what, values, fix }, { values: before }) {
      const changed = [...new Set(Object.keys({ ...before, ...values }))].filter(
        (name) => before !== undefined && before[name] !== values[name],
      );
      const failures = changed.map((name) => ({
        property: z.core.toDotPath(["values", name]),
        reason: `${what} has ${name} ${before?.[name] ?? "of AWS's choice"}; ${values[name] ?? "another one"} would replace it with an empty resource. ${fix}`,
      }));
      return { outputs: {}, failures };
    },
  },
  idOf: ({ what }) => what,
  bring: async (inputs) => inputs,
  find: async (state) => state,
  remove: async () => undefined,
});
