// What `pulumi -C bootstrap up` starts. The program is bootstrap/index.ts.
import { importSource } from "../loader/import-source.mjs";

export default await importSource("bootstrap/index.ts");
