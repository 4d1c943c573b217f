/** The official driver of PyPI against the document database. */
import { expect, test } from "vitest";
import { pythonMissing, runPython } from "./python.ts";
import { withMongo } from "./support.ts";

const missing = await pythonMissing();

test("pymongo", async ({ skip }) => {
  skip(missing !== undefined, missing);
  await withMongo(async (_client, { port }) => {
    const { status, output } = await runPython(import.meta.dirname, "driver.py", { PORT: String(port) });
    expect(output).toMatch(/^all checks hold$/m);
    expect(status).toBe(0);
  });
});
