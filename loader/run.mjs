// Runs a TypeScript file of the project as a program: node loader/run.mjs FILE [ARGUMENT …]
// FILE is one of the entry points in import-source.mjs, relative to the project.
import { importSource } from "./import-source.mjs";

// The program sees itself where Node puts it.
process.argv.splice(1, 1);
await importSource(process.argv[1] ?? "");
