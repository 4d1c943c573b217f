/**
 * What the processes of services share: how they start, say why they can't, and stop; the directory that holds their
 * data; and how clients share the memory and the time of one process. It depends on Node alone.
 */
export { ByteBudget } from "./byte-budget.ts";
export { openStore } from "./data-directory.ts";
export { listenError } from "./listen-error.ts";
export { LOG_LEVELS, type LogLevel, readLogLevel, readOptions, readPort } from "./options.ts";
export { runService, StartError } from "./start.ts";
export { stopOnSignals } from "./stop.ts";
export { Patience, TURN_MILLISECONDS } from "./turns.ts";
