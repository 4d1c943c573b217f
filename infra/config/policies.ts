/** What a stack says of the rules that its resources keep; the same on every platform. */
import { z } from "zod";
import { POLICY_LEVELS, POLICY_NAMES } from "../plan/catalogue/types.ts";

export const policies = z
  .strictObject({
    /** Most that the stack may cost by the hour at its planned number of machines, in US dollars; absent: no cap. */
    hourlyUsdCap: z.number().min(0).max(100_000).optional(),
    /** Level of a rule, where it is not the default of docs/policies.md. */
    levels: z.partialRecord(z.enum(POLICY_NAMES), z.enum(POLICY_LEVELS)).default({}),
  })
  .prefault({});
