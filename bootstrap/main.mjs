// Entry of `pulumi -C bootstrap up`. The program is bootstrap/index.ts.
import { importSource } from "../loader/import-source.mjs";

export default await importSource("bootstrap/index.ts");
