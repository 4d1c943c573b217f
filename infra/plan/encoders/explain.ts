/** The commands of an encoder build, as a person would type them in the container. */
import { shellLine } from "../engine/shell-line.ts";
import type { EncoderPlan, EncoderStepName } from "./types.ts";

/** What each command is, and whose. */
const COMMENTS: Readonly<Record<EncoderStepName, string>> = {
  export:
    "downloads the files at their commit and writes the ONNX graph (encoder_builder is this project's own program)",
  calibrate:
    "measures ranges on samples and writes quantize and dequantize nodes (encoder_builder, likewise)",
  trtexec: "builds the plan (NVIDIA's own tool, part of the image)",
};

/**
 * Lines of shell for the image that the plan names. What is a command of this project's own program is said so; the
 * image of NVIDIA does not have it.
 */
export function explainEncoders(plan: EncoderPlan): readonly string[] {
  const where = plan.gpu === null ? "on any machine" : `on a machine with the GPU that serves (${plan.gpu})`;
  const lines = [
    `# Encoders ${plan.shortKey}: ${plan.precision}, in ${plan.image} with encoder_builder, ${where}.`,
    shellLine(["mkdir", "-p", ...plan.models.map(({ name }) => `${plan.directory}/${name}`)]),
  ];
  for (const model of plan.models) {
    lines.push("", `# ${model.name}: ${model.encoder}, served by ${model.towerConfig.name}.`);
    for (const { name, argv } of [model.export, ...model.steps]) {
      lines.push(`# ${name}: ${COMMENTS[name]}.`, shellLine(argv));
    }
  }
  return lines;
}
