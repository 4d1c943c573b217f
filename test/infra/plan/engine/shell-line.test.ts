import { execFileSync } from "node:child_process";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { shellLine } from "../../../../infra/plan/engine/shell-line.ts";

describe("a shell line", () => {
  it("has one line for each flag, its values beside it", () => {
    expect(
      shellLine([
        "trtllm-build",
        "--output_dir",
        "/e/llm",
        "--use_fused_mlp=enable",
        "--max_batch_size",
        "8",
      ]),
    ).toBe("trtllm-build \\\n  --output_dir /e/llm \\\n  --use_fused_mlp=enable \\\n  --max_batch_size 8");
  });

  it("begins with the environment, sorted", () => {
    expect(shellLine(["python3", "run.py"], { PYTHONPATH: "/store/code/VILA", PMIX_MCA_gds: "hash" })).toBe(
      "PMIX_MCA_gds=hash PYTHONPATH=/store/code/VILA python3 run.py",
    );
  });

  it.each([
    ["*.safetensors", "'*.safetensors'"],
    ["\n Which city is this?", "$'\\n Which city is this?'"],
    ["it's", "'it'\\''s'"],
    ["", "''"],
    ["$HOME", "'$HOME'"],
    ["llava-hf/llava-1.5-7b-hf", "llava-hf/llava-1.5-7b-hf"],
  ])("quotes %j", (word, quoted) => {
    expect(shellLine(["echo", word])).toBe(`echo ${quoted}`);
  });

  it("gives bash the words that went in", () => {
    const word = fc.oneof(
      fc.string({ unit: "grapheme" }),
      fc.string({
        unit: fc.constantFrom("'", '"', "\\", "\n", "\t", "\r", " ", "$", "-", "=", "!", "`", "a"),
      }),
    );
    const text = word.filter((value) => !value.includes("\0") && value.isWellFormed());
    fc.assert(
      fc.property(fc.array(text, { minLength: 1, maxLength: 6 }), text, (words, value) => {
        const line = shellLine(["printf", "%s\\0", ...words], { ENGINE_ROOM_TEST: value });
        expect(execFileSync("bash", ["-c", line], { encoding: "utf8" })).toBe(
          words.map((each) => `${each}\0`).join(""),
        );
        const shown = shellLine(["printenv", "ENGINE_ROOM_TEST"], { ENGINE_ROOM_TEST: value });
        expect(execFileSync("bash", ["-c", shown], { encoding: "utf8" })).toBe(`${value}\n`);
      }),
      { numRuns: 40 },
    );
  });
});
