/**
 * What the processes of services share: how they start, say why they can't, and stop; the directory that holds their
 * data; and how clients share the memory and the time of one process. It depends on Node alone.
 */
export { openStore } from "./data-directory.ts";
export { type Limit, type LimitValues, limitValues, type MemoryUse, worstCaseBytes } from "./limits.ts";
export {
  type LogLevel,
  listenError,
  readDatabaseOptions,
  readOptions,
  readPort,
  runService,
  StartError,
  stopOnSignals,
} from "./process.ts";
export { ByteBudget, ConnectionsByUse, HeldBytes, Patience, TURN_MILLISECONDS } from "./sharing.ts";
