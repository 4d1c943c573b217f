import { expect } from "vitest";

/**
 * Compares with the recorded text (`npx vitest run -u` renews it). The Python tests of the models parse the same files
 * with protobuf's own parser, so they show that Triton can read them.
 */
export async function recordedText(name: string, text: string): Promise<void> {
  const folder = new URL("../../../../containers/python/tests/fixtures/rendered/", import.meta.url);
  await expect(text).toMatchFileSnapshot(new URL(`${name}.pbtxt`, folder).pathname);
}
