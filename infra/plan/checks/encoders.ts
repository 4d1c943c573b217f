/** Encoders: the machines that they run on, and rows that a stack adds to the catalogue. */
import { showValue } from "../../problems.ts";
import { CARD_PREFIXES, textEncoders, visionEncoders } from "../catalogue/encoders.ts";
import { encoderProblems, graphProblems } from "../encoders/encoder-plan.ts";
import type { EncodersSpec, PoolSpec } from "../spec.ts";
import { type Check, type CheckedStack, type Findings, flatFindings } from "./check.ts";

export const encoderChecks = {
  encodersCanBeBuilt: onPool((encoders, { gpu }) =>
    [encoderProblems(encoders, gpu), graphProblems(encoders)].flatMap(flatFindings),
  ),

  encoderSamplesAreUsed: onPool(({ calibration, precision }) => {
    if (calibration === undefined) return [];
    const path = "encoders.calibration";
    if (precision !== "int8")
      return {
        path,
        reason: `Precision ${precision} needs no samples.`,
        fix: "Remove it, or write precision: int8.",
      };
    return (
      (calibration.images ?? calibration.texts) === undefined && {
        path,
        reason: "It names neither pictures nor texts.",
        fix: "Write images, texts or both, such as texts: /store/calibration/texts.txt.",
      }
    );
  }),

  encoderHasItsPrefixes: ({ spec: { encoders } }) => {
    const row = encoders?.ownText;
    const card = CARD_PREFIXES.find(({ repository }) => repository.test(row?.source.repository ?? ""));
    if (encoders === null || row === undefined || card === undefined) return [];
    const uses = Object.keys(card.prefixes) as (keyof typeof card.prefixes)[];
    if (uses.every((use) => row.prefixes?.[use] !== undefined)) return [];
    const words = uses.map((use) => `${use}: ${JSON.stringify(row.prefixes?.[use] ?? card.prefixes[use])}`);
    return {
      severity: "warning",
      path: `catalogue.encoders.${encoders.text}.prefixes`,
      reason: `${row.source.repository} was trained with words before its texts, and searches find less without them.`,
      fix: `Write prefixes: { ${words.join(", ")} } in the row; an empty text stands for none.`,
    };
  },

  encoderGpuIsOfHost: onPool(({ gpuIndices, device }, { machine: { gpus } }, { spec }) => {
    if (gpuIndices === undefined) return [];
    const path = "encoders.gpuIndices";
    if (device === "cpu")
      return { path, reason: "Encoders with `device: cpu` do not use a GPU.", fix: "Remove it." };
    if (spec.runsOn !== "host") {
      const reason = "GPU numbers are for a single machine; in a cluster the scheduler assigns GPUs.";
      return { path, reason, fix: "Remove it." };
    }
    return gpuIndices.map(
      (index, position) =>
        index >= gpus && {
          path: `${path}[${position}]`,
          reason: `The host's GPUs have the numbers 0 to ${gpus - 1}.`,
          fix: "Use one of them.",
        },
    );
  }),

  customEncoderNameIsFree: ({ config }) =>
    Object.entries(config.catalogue.encoders ?? {}).map(([name, { kind }]) => {
      const model = kind === "sentence" ? config.models.findIndex((one) => one.name === name) : -1;
      const isKnown = Object.hasOwn(visionEncoders, name) || Object.hasOwn(textEncoders, name);
      if (!isKnown && model < 0) return [];
      return {
        path: `catalogue.encoders.${name}`,
        value: showValue(name),
        reason: isKnown
          ? `The catalogue already has an encoder ${name}.`
          : `models[${model}] has this name, and clients ask the gateway for both by it.`,
        fix: "Use another name.",
      };
    }),
} satisfies Record<string, Check>;

function onPool(check: (encoders: EncodersSpec, pool: PoolSpec, stack: CheckedStack) => Findings): Check {
  return (stack) => {
    const { encoders, pools } = stack.spec;
    const pool = pools.find(({ name }) => name === encoders?.pool);
    return encoders !== null && pool !== undefined && check(encoders, pool, stack);
  };
}
