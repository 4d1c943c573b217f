import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { genaiPerfTable, measureWithGenaiPerf } from "../bench/genai-perf.ts";
import { figureKeeper } from "../bench/load.ts";
import { loadTargets, measureLoad } from "../bench/stack-load.ts";
import { withEndpoints } from "../connect/connected-stack.ts";
import { UsageError } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import { callerDirectory } from "../program/stack-file.ts";
import { readPlan } from "../program/targets.ts";
import { defineCommand, EXIT } from "./command.ts";

export const command = defineCommand({
  options: {
    "-o, --out <file>": "the figures as JSON, besides the table",
    "-m, --model <name>":
      "of a stack in a cluster: measure that model's Triton with NVIDIA's GenAI-Perf, a Job of the release's SDK image; --out keeps its table",
  },
  notes: [
    "Without --model: requests per second and latency of the encoders and of each language model, directly and through the gateway.",
  ],
  asksCluster: true,
  asksGateway: true,
  async run({ stack, values: { model, out } }) {
    if (model === undefined) {
      return withEndpoints(stack, ["triton"], async (outputs) => {
        const targets = loadTargets(readPlan(stack), outputs, process.env.ENGINE_ROOM_API_KEY);
        const print = (line: string) => void process.stdout.write(`${line}\n`);
        figureKeeper(out)("load", await measureLoad(targets, print));
        return EXIT.ok;
      });
    }
    const cluster = (await operationsOf(stack)).cluster();
    if (cluster === null)
      throw new UsageError(
        "--model is for stacks of `platform: kubernetes`; without it the gateway is measured.",
      );
    const record = await measureWithGenaiPerf(cluster.target, model, cluster.probe);
    if (out !== undefined)
      writeFileSync(resolve(callerDirectory(), out), `${JSON.stringify(record, null, 2)}\n`);
    return { text: `${genaiPerfTable(record.figures).join("\n")}\n` };
  },
});
