/** The first load of the samples in its own process, for tests that kill it: `first-load-process.ts URL DATA`. */
import { SampleMark } from "../../../scripts/seed/samples.ts";
import { seedSamplesOnce } from "../../../scripts/seed/seed.ts";

const [gateway = "", data = ""] = process.argv.slice(2);
await seedSamplesOnce(new SampleMark(data), { gateway });
