// What the Pulumi CLI starts. Node reads it as it is; the program itself is infra/index.ts.
import { importSource } from "../loader/import-source.mjs";

export const { endpoints, models, release, engineStore, cost, notes } = await importSource("infra/index.ts");
