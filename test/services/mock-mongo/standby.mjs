/**
 * Loaded before a service's main.ts: loads its modules, then waits for a word on standard input. A test that starts a
 * service fifty times in a row has the next one ready when it ends the one before. No word comes from a test that died.
 */
import { readFileSync } from "node:fs";

for (const module of (process.env.PRELOADED_MODULES ?? "").split(",")) await import(module);
if (readFileSync(0).length === 0) process.exit();
