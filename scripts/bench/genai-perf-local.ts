/**
 * GenAI-Perf of PyPI, on this machine, against the gateway of a stack on CPUs. A container would lack the tokenizer: a
 * GGUF file has it in another form, and network policies refuse the hub to tools in a cluster.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { MODEL_NAMES } from "../../infra/plan/catalogue/cpu-models.ts";
import type { CpuPlan } from "../../infra/plan/cpu-stack.ts";
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import { named } from "../ask/question.ts";
import { UserError } from "../errors.ts";
import { findProgram } from "../stack/pulumi-cli.ts";
import {
  argumentsOf,
  commandRun,
  type GenaiPerfRequest,
  type GenaiPerfRun,
  genaiPerfScript,
  requireNoKey,
} from "./genai-perf.ts";

/** The newest, of August 2025: AIPerf has followed it. */
const PACKAGE = "genai-perf==0.0.16";

/** Where the hub has the tokenizer in the form that GenAI-Perf reads. */
const TOKENIZERS: Readonly<Record<(typeof MODEL_NAMES)[number], string>> = {
  "smollm2-135m-instruct": "HuggingFaceTB/SmolLM2-135M-Instruct",
};

/** @throws UserError for an unknown model, and for a gateway that requires a key. */
export function localRun(
  plan: CpuPlan,
  { model: name, load, tokenizer, gateway: url }: GenaiPerfRequest,
): GenaiPerfRun {
  const planned = named(plan.models, name);
  requireNoKey(plan.gateway);
  const argumentsFor = (artifacts: string) =>
    argumentsOf(load, {
      asked: ["--model", name, "--endpoint-type", "chat", "--url", url],
      tokenizer: tokenizer ?? TOKENIZERS[planned.model],
      streams: true,
      artifacts,
    });
  const record = { model: name, release: plan.release, engineKey: null, image: null, load };
  return {
    record,
    explained: `${shellLine(["genai-perf", ...argumentsFor("artifacts")])}\n`,
    async run() {
      requirePrograms();
      const artifacts = mkdtempSync(join(tmpdir(), "engine-room-genai-perf-"));
      const argv = ["sh", "-ec", genaiPerfScript(`'${artifacts}'`), "genai-perf", ...argumentsFor(artifacts)];
      try {
        return await commandRun(record, "", async () => argv).run();
      } finally {
        rmSync(artifacts, { recursive: true, force: true });
      }
    },
  };
}

/** @throws UserError if PATH lacks GenAI-Perf, or the program that it runs. */
function requirePrograms(): void {
  if (findProgram("genai-perf") === undefined)
    throw new UserError(
      `There is no genai-perf on PATH. In a virtual environment of Python 3.10 to 3.13, on Linux with glibc 2.38 or newer: pip install ${PACKAGE}; or \`npx engine-room bench sweep\`, which needs nothing.`,
    );
  if (findProgram("perf_analyzer") === undefined)
    throw new UserError(
      "genai-perf is on PATH, and perf_analyzer, which it runs, is not: its wheels are for Linux with glibc 2.38 or newer (Ubuntu 24.04, Debian 13), and elsewhere pip takes version 0.1.0, which has no program. `npx engine-room bench sweep` needs neither.",
    );
}
