/**
 * A stand-in for the repository of Triton's tutorials: the parts that this project's patches change or that are filled
 * in.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { projectRoot } from "../../../scripts/program/stack-file.ts";

const PATCHES = join(projectRoot, "containers/trtllm/patches");
const REPOSITORY = "Popular_Models_Guide/Llava1.5/model_repository";

interface Hunk {
  readonly file: string;
  /** Line of the file before the patch. */
  readonly start: number;
  readonly before: readonly string[];
}

/** Contents by path: the parts of a checkout that the patches change and the plan fills in. */
export function tutorialsStandIn(): Readonly<Record<string, string>> {
  const hunks = readdirSync(PATCHES)
    .toSorted()
    .flatMap((name) => hunksOf(readFileSync(join(PATCHES, name), "utf8")));
  const engineConfig = `${REPOSITORY}/tensorrt_llm/config.pbtxt`;
  const model = `${REPOSITORY}/llava-1.5/1/model.py`;
  return {
    LICENSE: "The tutorials' licence.\n",
    [`${REPOSITORY}/llava-1.5/config.pbtxt`]: "model_transaction_policy {\n  decoupled: True\n}\n",
    [model]: linesBefore(model, hunks).join("\n"),
    [engineConfig]: [
      'name: "tensorrt_llm"\nbackend: "tensorrtllm"\ninput [\n  {\n    name: "random_seed"',
      // Ends within a tensor.
      ...linesBefore(engineConfig, hunks),
      "    dims: [ 1 ]\n  }\n]",
      ...[
        "engine_dir",
        "enable_kv_cache_reuse",
        "enable_chunked_context",
        "kv_cache_free_gpu_mem_fraction",
      ].map((key) => `parameters: { key: "${key}" value: { string_value: "\${${key}}" } }`),
      "",
    ].join("\n"),
    [`${REPOSITORY}/tensorrt_llm/1/.gitkeep`]: "",
    [`${REPOSITORY}/vision_encoder/config.pbtxt`]:
      "instance_group [ { count: 1 kind: KIND_GPU gpus: [ 0 ] } ]\n",
    [`${REPOSITORY}/vision_encoder/1/model.py`]: "# Runs the visual engine.\n",
  };
}

/** Old sides of a file's hunks, in the order of their places, each apart from the next. */
function linesBefore(file: string, hunks: readonly Hunk[]): readonly string[] {
  return hunks
    .filter((hunk) => hunk.file === file)
    .toSorted((a, b) => a.start - b.start)
    .flatMap(({ before }) => [...before, ...(file.endsWith(".py") ? ["# …", ""] : [])]);
}

function hunksOf(patch: string): readonly Hunk[] {
  return patch
    .split(/^diff --git .*$/m)
    .slice(1)
    .flatMap((part) => {
      const file = /^--- a\/(.+)$/m.exec(part)?.[1] ?? "";
      return [...part.matchAll(/^@@ -(\d+),\d+ \+\d+,\d+ @@.*\n((?:[ +-].*\n|\n)*)/gm)].map(
        ([, start, body = ""]) => ({
          file,
          start: Number(start),
          before: body
            .split("\n")
            .slice(0, -1)
            .filter((line) => !line.startsWith("+"))
            .map((line) => line.slice(1)),
        }),
      );
    });
}
