/** The official client of PyPI against the vector database. */
import { expect, test } from "vitest";
import { pythonMissing, runPython } from "../mock-mongo/python.ts";
import { withVector } from "./support.ts";

const missing = await pythonMissing();

test("qdrant-client", async ({ skip }) => {
  skip(missing !== undefined, missing);
  await withVector(async (_client, { url }) => {
    const { status, output } = await runPython(import.meta.dirname, "client.py", { URL: url });
    expect(output).toMatch(/^all checks hold$/m);
    expect(status).toBe(0);
  });
});

test("what is asked of it and of Qdrant's own local mode has the same answers", async ({ skip }) => {
  skip(missing !== undefined, missing);
  await withVector(async (_client, { url }) => {
    const { status, output } = await runPython(import.meta.dirname, "local_mode.py", { URL: url });
    expect(output.trim()).toBe("0 differences");
    expect(status).toBe(0);
  });
});
