import { describe, expect, test } from "vitest";
import { taskFailure } from "../../../components/docker/task-result.ts";

const NAME = "demo-llava-0123456789ab";
const failure = (end: Partial<Parameters<typeof taskFailure>[0]>) =>
  taskFailure({ name: NAME, exitCode: 1, logs: "", secrets: [], ...end });

describe("a task", () => {
  test("that ended with 0 has not failed", () => {
    expect(failure({ exitCode: 0, logs: "error: none\n" })).toBeUndefined();
  });

  test("that failed says with what, its last words, and what to do", () => {
    expect(failure({ exitCode: 3, logs: "step convert\nno space left\n" })).toBe(
      `The container ${NAME} ended with exit code 3. Its last lines:\n  step convert\n  no space left\n` +
        `\`docker logs ${NAME}\` on the host shows all of it; \`npm run up\` runs it again.`,
    );
  });

  test.each([
    [137, "it was killed, most often because the memory was used up"],
    [127, "its command is not in the image"],
    [2, undefined],
  ])("that ended with %d", (exitCode, meaning) => {
    expect(failure({ exitCode })).toContain(
      `ended with exit code ${exitCode}${meaning === undefined ? "." : ` (${meaning}).`}`,
    );
  });

  test.each([null, undefined])("whose exit code is %s still runs", (exitCode) => {
    expect(failure({ exitCode, logs: null })).toContain(
      `The container ${NAME} did not end in the time it has.`,
    );
  });

  test("shows no secret, wherever its log has one", () => {
    const text = failure({
      logs: "token hf_hush\nhttps://x/?t=hf_hush&u=hf_hush\n",
      secrets: ["", "hf_hush"],
    });
    expect(text).not.toContain("hf_hush");
    expect(text).toContain("https://x/?t=[secret]&u=[secret]");
  });

  test("shows the last 20 lines, each cut, of a progress bar its last state, and no empty ones", () => {
    const lines = Array.from({ length: 30 }, (_, index) => `line ${index}`);
    const text = failure({ logs: `${lines.join("\n")}\n\n10 %\r50 %\r100 %\r\n${"x".repeat(500)}\n` }) ?? "";
    const shown = text.split("\n").slice(1, -1);
    expect(shown).toHaveLength(20);
    expect(shown[0]).toBe("  line 12");
    expect(shown.at(-2)).toBe("  100 %");
    expect(shown.at(-1)).toBe(`  ${"x".repeat(400)}…`);
  });
});
