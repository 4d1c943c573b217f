/**
 * Loaded before a service's main.ts: loads its modules, then waits for the end of standard input. A test that starts a
 * service fifty times in a row has the next one ready when it ends the one before.
 */
import { readFileSync } from "node:fs";

for (const module of (process.env.PRELOADED_MODULES ?? "").split(",")) await import(module);
readFileSync(0);
