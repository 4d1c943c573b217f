// Entry point of the Pulumi CLI. Node runs it without a build; infra/index.ts is the program and exports its outputs.
import { importSource } from "../loader/import-source.mjs";

export default await importSource("infra/index.ts");
