/** Every type of @pulumi/aws that stacks have. */
import { computeOperations } from "./compute.ts";
import { networkOperations } from "./network.ts";
import type { OperationRow } from "./row.ts";
import { storageOperations } from "./storage.ts";

export const operations: Readonly<Record<string, OperationRow>> = {
  ...networkOperations,
  ...computeOperations,
  ...storageOperations,
};
