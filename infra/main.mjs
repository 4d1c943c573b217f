// What the Pulumi CLI starts. Node reads it as it is; the program, and what it exports, is infra/index.ts.
import { importSource } from "../loader/import-source.mjs";

export default await importSource("infra/index.ts");
