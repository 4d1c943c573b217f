/**
 * Common code of the services' processes: start, errors of the start, and stop; the data directory; and how clients
 * share the memory and the time of one process. It depends only on Node.
 */
export { openStore } from "./data-directory.ts";
export { ByteBudget, ConnectionsByUse, HeldBytes, TimeSlice, TURN_MILLISECONDS } from "./fair-use.ts";
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
