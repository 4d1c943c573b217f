import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { gpus } from "../../../../infra/plan/catalogue/gpus.ts";
import { releases } from "../../../../infra/plan/catalogue/releases.ts";
import { encoderPlan } from "../../../../infra/plan/encoders/encoder-plan.ts";
import { explainEncoders } from "../../../../infra/plan/encoders/explain.ts";
import { b32, onCpu } from "./stacks.ts";

/** Commands of a script as a shell reads them: each program is replaced by one that prints its arguments. */
function commandsOf(lines: readonly string[]): string[][] {
  const print = `print() { for word; do printf '%s\\037' "$word"; done; printf '\\n'; }`;
  const script = lines.map((line) => line.replace(/^(?=python3 |\/usr\/src|mkdir )/, "print ")).join("\n");
  const output = execFileSync("sh", ["-c", `${print}\n${script}`], { encoding: "utf8" });
  return output
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.split("\x1f").slice(0, -1));
}

describe("explainEncoders", () => {
  it("prints the very commands of the plan", () => {
    const plan = encoderPlan({ ...b32, precision: "int8" }, releases["25.07"], gpus.A10G);
    const commands = plan.models.flatMap((model) =>
      [model.export, ...model.steps].map(({ argv }) => [...argv]),
    );
    expect(commandsOf(explainEncoders(plan)).slice(1)).toEqual(commands);
  });

  it("makes the folders first, and says where to run it and whose programs they are", () => {
    const plan = encoderPlan({ ...b32, precision: "int8" }, releases["25.07"], gpus.A10G);
    const lines = explainEncoders(plan);
    expect(lines[0]).toBe(
      `# Encoders ${plan.shortKey}: int8, in nvcr.io/nvidia/tritonserver:25.07-py3 with encoder_builder, on a machine with the GPU that serves (A10G 8.6).`,
    );
    expect(commandsOf(lines)[0]).toEqual([
      "mkdir",
      "-p",
      `${plan.directory}/clip_text`,
      `${plan.directory}/text_encoder`,
      `${plan.directory}/vision_encoder`,
    ]);
    const text = lines.join("\n");
    expect(text.match(/# export: .*this project's own program/g)).toHaveLength(3);
    expect(text.match(/# calibrate: .*encoder_builder, likewise/g)).toHaveLength(3);
    expect(text.match(/# trtexec: .*NVIDIA's own tool/g)).toHaveLength(3);
  });

  it("asks for no GPU where none is needed", () => {
    const lines = explainEncoders(encoderPlan(onCpu, releases["25.07"], null));
    expect(lines[0]).toContain("on any machine");
    expect(lines.join("\n")).not.toContain("trtexec");
  });
});
