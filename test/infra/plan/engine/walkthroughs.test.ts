import { execFileSync } from "node:child_process";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { LanguageModelName } from "../../../../infra/plan/catalogue/language-models.ts";
import type { EnginePlan } from "../../../../infra/plan/container-spec-schemas.ts";
import { enginePlan } from "../../../../infra/plan/engine/engine-plan.ts";
import { shellLine } from "../../../../infra/plan/engine/shell-line.ts";
import { times } from "../../../harness/thorough.ts";
import { type EngineChanges, engineSpec } from "../model-specs.ts";
import { byFlag, type Correction, correct, namedWords, shellWords } from "./support.ts";

/**
 * Compares the commands of the five walkthroughs, with `${VARIABLES}` replaced by places, with the plan. Each
 * difference is a correction with its reason.
 */

interface Command {
  readonly step: EnginePlan["steps"][number]["name"];
  readonly document: string;
  readonly corrections: readonly Correction[];
}

interface Walkthrough {
  readonly title: string;
  readonly model: LanguageModelName;
  readonly changes: EngineChanges;
  readonly commands: readonly Command[];
}

const imageHasExamples: Correction = {
  document: "/tensorrtllm_backend/tensorrt_llm/examples/",
  corrected: "<scripts>/",
  reason: "25.07 keeps the examples in /app/examples: neither clone nor submodule is needed",
};

const cloneIsThePlace: Correction = {
  document: "/tensorrtllm_backend/tensorrt_llm/examples/",
  corrected: "<scripts>/",
  reason: "the same folder by its name: this release's image has no examples, so the clone is where they are",
};

const fromExamples: Correction = {
  document: "python tensorrt_llm/examples/",
  corrected: "python3 <scripts>/",
  reason: "works from a clone's root only; the image has the examples itself from 25.01 on",
};

const ownFolder: Correction = {
  document: "--model_path <weights>",
  corrected: "--model_path <weights> --output_dir <vision>",
  reason: "the default is below the working directory; llm/ and vision/ each have a config.json",
};

const llava2507: Walkthrough = {
  title: "the LLaVA-1.5 walkthrough for 25.07",
  model: "llava-1.5-7b",
  changes: { release: "25.07" },
  commands: [
    {
      step: "convert",
      document: `python3 /tensorrtllm_backend/tensorrt_llm/examples/models/core/llama/convert_checkpoint.py \\
  --model_dir <weights> \\
  --output_dir <checkpoint> \\
  --dtype float16`,
      corrections: [imageHasExamples],
    },
    {
      step: "llm",
      document: `trtllm-build \\
  --checkpoint_dir <checkpoint> \\
  --output_dir <llm> \\
  --gemm_plugin float16 \\
  --use_fused_mlp=enable  \\
  --max_batch_size 1 \\
  --max_input_len 2048 \\
  --max_seq_len 2560 \\
  --max_multimodal_len 576`,
      corrections: [],
    },
    {
      step: "vision",
      document: `python3 /tensorrtllm_backend/tensorrt_llm/examples/models/core/multimodal/build_multimodal_engine.py \\
  --model_path <weights> \\
  --model_type llava \\
  --output_dir <vision>`,
      corrections: [
        imageHasExamples,
        {
          document: "--output_dir <vision>",
          corrected: "--output_dir <vision> --max_batch_size 1",
          reason: "the builder's default is 4; the language engine takes 1 request with 1 image",
        },
      ],
    },
    {
      step: "check",
      document: `python3 /tensorrtllm_backend/tensorrt_llm/examples/models/core/multimodal/run.py \\
    --max_new_tokens 30 \\
    --hf_model_dir <weights> \\
    --engine_dir <engine> \\
    --image_path=https://storage.googleapis.com/sfr-vision-language-research/LAVIS/assets/merlion.png \\
    --input_text "\\n Which city is this?" \\
    --batch_size=1`,
      corrections: [
        imageHasExamples,
        {
          document: "https://storage.googleapis.com/sfr-vision-language-research/LAVIS/assets/merlion.png",
          corrected: "<goldenImage>",
          reason: "a build must not need the network for its check",
        },
        {
          document: '"\\n Which city is this?"',
          corrected: "$'\\n What is shown in this picture?'",
          reason:
            "bash hands on a backslash and an n, and the walkthrough's own log shows a line feed; an image may be given on" +
            " with a CC0 picture, and nobody says what the merlion's is under",
        },
      ],
    },
  ],
};

const llamaChat08: Walkthrough = {
  title: "the Kubernetes walkthrough for Llama-2-7b-chat (0.8.0)",
  model: "llama-2-7b-chat",
  changes: { release: "24.02", limits: { maxBatchSize: 64 } },
  commands: [
    {
      step: "download",
      document: `huggingface-cli download meta-llama/Llama-2-7b-chat-hf \\
  --local-dir <weights> --local-dir-use-symlinks False`,
      corrections: [
        {
          document: "Llama-2-7b-chat-hf ",
          corrected:
            "Llama-2-7b-chat-hf --revision f5db02db724555f92da89c216ac04704f23d4590" +
            ' --include "*.safetensors" "*.json" tokenizer.model ',
          reason: "a branch moves; the repository holds the weights in two formats",
        },
      ],
    },
    {
      step: "convert",
      document: `python convert_checkpoint.py --model_dir <weights> \\
    --output_dir <checkpoint> \\
    --dtype float16`,
      corrections: [
        {
          document: "python convert_checkpoint.py",
          corrected: "python3 <scripts>/llama/convert_checkpoint.py",
          reason: "works from examples/llama only",
        },
      ],
    },
    {
      step: "llm",
      document: `trtllm-build --checkpoint_dir <checkpoint> \\
    --output_dir <llm> \\
    --gemm_plugin float16`,
      corrections: [
        {
          document: "--gemm_plugin float16",
          corrected: "--gemm_plugin float16 --max_batch_size 64 --max_input_len 2048 --max_output_len 512",
          reason:
            "Triton's models take 64 requests and the KV cache 2560 tokens; the engine's own bounds must be the same",
        },
      ],
    },
  ],
};

const llamaTutorial: Walkthrough = {
  title: "the Llama-2 tutorial of Triton (0.9.0)",
  model: "llama-2-7b",
  changes: { release: "24.05" },
  commands: [
    {
      step: "convert",
      document:
        "python3 /tensorrtllm_backend/tensorrt_llm/examples/llama/convert_checkpoint.py" +
        " --model_dir <weights> --output_dir <checkpoint> --dtype float16",
      corrections: [cloneIsThePlace],
    },
    {
      step: "llm",
      document: `trtllm-build --checkpoint_dir <checkpoint> \\
            --remove_input_padding enable \\
            --gpt_attention_plugin float16 \\
            --context_fmha enable \\
            --gemm_plugin float16 \\
            --output_dir <llm> \\
            --paged_kv_cache enable \\
            --max_batch_size 4`,
      corrections: [
        {
          document: "--max_batch_size 4",
          corrected: "--max_batch_size 4 --max_input_len 2048 --max_output_len 512",
          reason: "the defaults of lengths change between releases",
        },
      ],
    },
    {
      step: "check",
      document:
        "python3 /tensorrtllm_backend/tensorrt_llm/examples/run.py --engine_dir=/engines/1-gpu/" +
        ' --max_output_len 50 --tokenizer_dir <weights> --input_text "What is ML?"',
      corrections: [
        cloneIsThePlace,
        {
          document: "--engine_dir=/engines/1-gpu/",
          corrected: "--engine_dir <llm>",
          reason: "the tutorial built into /engines, not /engines/1-gpu",
        },
      ],
    },
  ],
};

const guide = (
  title: string,
  model: LanguageModelName,
  changes: EngineChanges,
  commands: readonly Command[],
): Walkthrough => ({
  title: `the multimodal guide of tensorrtllm_backend, ${title} (25.02)`,
  model,
  changes: { release: "25.02", ...changes },
  commands,
});

const guideConvert = (script: string, dtype = "float16", type = ""): Command => ({
  step: "convert",
  document:
    `python tensorrt_llm/examples/${script}/convert_checkpoint.py ${type}` +
    `--model_dir <weights> --output_dir <checkpoint> --dtype ${dtype}`,
  corrections: [fromExamples],
});

const multimodalGuide: readonly Walkthrough[] = [
  guide("BLIP2-OPT", "blip2-opt-2.7b", {}, [
    guideConvert("opt", "float16", "--model_type blip2 "),
    {
      step: "llm",
      document:
        "trtllm-build --checkpoint_dir <checkpoint> --output_dir <llm> --gemm_plugin float16 --max_beam_width 1" +
        " --max_batch_size 8 --max_seq_len 1024 --max_input_len 924 --max_multimodal_len 256",
      corrections: [{ document: " --max_beam_width 1", corrected: "", reason: "trtllm-build's default" }],
    },
    {
      step: "vision",
      document:
        "python tensorrt_llm/examples/multimodal/build_visual_engine.py --model_type blip2 --model_path <weights> --max_batch_size 8",
      corrections: [fromExamples, ownFolder],
    },
  ]),
  guide("LLaVA", "llava-1.5-7b", { limits: { maxBatchSize: 8 } }, [
    guideConvert("llama"),
    {
      step: "llm",
      document:
        "trtllm-build --checkpoint_dir <checkpoint> --output_dir <llm> --gemm_plugin float16 --max_batch_size 8" +
        " --max_input_len 2048 --max_seq_len 2560 --max_multimodal_len 4608",
      corrections: [],
    },
    {
      step: "vision",
      document:
        "python tensorrt_llm/examples/multimodal/build_visual_engine.py --model_path <weights> --model_type llava --max_batch_size 8",
      corrections: [fromExamples, ownFolder],
    },
  ]),
  guide("VILA", "vila1.5-3b", {}, [
    guideConvert("llama"),
    {
      step: "llm",
      document:
        "trtllm-build --checkpoint_dir <checkpoint> --output_dir <llm> --gemm_plugin float16 --max_batch_size 8" +
        " --max_input_len 2048 --max_seq_len 2560 --max_multimodal_len 6272",
      corrections: [],
    },
    {
      step: "vision",
      document:
        "python tensorrt_llm/examples/multimodal/build_visual_engine.py --model_path <weights> --model_type vila" +
        " --vila_path <code> --max_batch_size 32",
      corrections: [fromExamples, ownFolder],
    },
  ]),
  guide("LLaVA-OneVision", "llava-onevision-qwen2-7b", {}, [
    guideConvert("qwen"),
    {
      step: "llm",
      document:
        "trtllm-build --checkpoint_dir <checkpoint> --output_dir <llm> --gemm_plugin float16 --max_batch_size 1" +
        " --max_input_len 7500 --max_seq_len 7600 --max_multimodal_len 7300",
      corrections: [],
    },
    {
      step: "vision",
      document:
        "python tensorrt_llm/examples/multimodal/build_visual_engine.py --model_path <weights> --model_type llava_onevision" +
        " --max_batch_size 16",
      corrections: [fromExamples, ownFolder],
    },
  ]),
  guide("MLLaMA", "llama-3.2-11b-vision", {}, [
    guideConvert("mllama", "bfloat16"),
    {
      step: "llm",
      document:
        "trtllm-build --checkpoint_dir <checkpoint> --output_dir <llm> --gemm_plugin auto --max_batch_size 8" +
        " --max_seq_len 2048 --max_num_tokens 4096 --max_encoder_input_len 6404",
      corrections: [
        {
          document: "--max_encoder_input_len 6404",
          corrected: "--max_encoder_input_len 4100",
          reason:
            "6404 belongs to the instruct model (4 tiles of 1601); the base model has 4 tiles of 1025," +
            " and every position costs cross-attention cache",
        },
        {
          document: "--max_seq_len 2048",
          corrected: "--max_seq_len 2048 --max_input_len 1024",
          reason: "1024 is the default; the plan states every bound",
        },
      ],
    },
    {
      step: "vision",
      document:
        "python tensorrt_llm/examples/multimodal/build_visual_engine.py --model_path <weights> --model_type mllama" +
        " --output_dir <vision> --max_batch_size 8",
      corrections: [fromExamples],
    },
  ]),
];

const gpt2: Walkthrough = {
  title:
    "the gpt2-medium and CLIP/MiniLM walkthrough (25.07), with the commands of the guide that it points to",
  model: "gpt2-medium",
  changes: { release: "25.07" },
  commands: [
    {
      step: "convert",
      document:
        "python3 convert_checkpoint.py --model_dir <weights> --dtype float16 --output_dir <checkpoint>",
      corrections: [
        {
          document: "python3 convert_checkpoint.py",
          corrected: "python3 <scripts>/models/core/gpt/convert_checkpoint.py",
          reason: "works from examples/models/core/gpt only",
        },
      ],
    },
    {
      step: "llm",
      document: "trtllm-build --checkpoint_dir <checkpoint> --output_dir <llm>",
      corrections: [
        {
          document: "--output_dir <llm>",
          corrected:
            "--output_dir <llm> --gemm_plugin float16 --max_batch_size 4 --max_input_len 768 --max_seq_len 1024",
          reason: "without bounds the engine takes 2048 requests at once and gigabytes of buffers",
        },
      ],
    },
    {
      step: "check",
      document: "python3 ../../../run.py --engine_dir <llm> --tokenizer_dir <weights> --max_output_len 8",
      corrections: [
        { document: "../../../run.py", corrected: "<scripts>/run.py", reason: "works from one folder only" },
        {
          document: "--max_output_len 8",
          corrected: '--max_output_len 8 --input_text "Born in north-east France, Soyer trained as a"',
          reason: "the default of run.py, spelled out: the answer is compared",
        },
      ],
    },
  ],
};

const walkthroughs = [llava2507, llamaChat08, llamaTutorial, ...multimodalGuide, gpt2];

const commands = walkthroughs.flatMap(({ title, commands, ...engine }) =>
  commands.map((command) => [command.step, title, { ...engine, ...command }] as const),
);

test.each(commands)(
  "the step %s of %s has its command, after the named corrections",
  (step, _title, { model, changes, document, corrections }) => {
    const planned = namedWords(enginePlan(engineSpec(model, changes)), step);
    expect(byFlag(planned)).toEqual(byFlag(shellWords(correct(document, corrections))));
  },
);

test("the instruct model of Llama 3.2 Vision has the guide's 6404 encoder positions", () => {
  const base = engineSpec("llama-3.2-11b-vision", { release: "25.02" });
  const { vision } = base.row;
  if (vision === undefined) throw new Error("a visual model");
  const row = { ...base.row, vision: { ...vision, tokensPerImage: 6404 } };
  const words = namedWords(enginePlan({ ...base, row }), "llm");
  expect(words.join(" ")).toContain("--max_encoder_input_len 6404");
});

test("weights of Llama-2-7b-chat can come from ModelScope, whose client is installed first", () => {
  const plan = enginePlan(
    engineSpec("llama-2-7b-chat", {
      weights: { kind: "modelscope", repository: "shakechen/Llama-2-7b-chat-hf", revision: "master" },
    }),
  );
  expect(plan.steps.slice(0, 2).map((step) => step.argv.slice(0, 6).join(" "))).toEqual([
    "pip install modelscope==1.40.2",
    "modelscope download --model shakechen/Llama-2-7b-chat-hf --revision master",
  ]);
});

test("the LLaVA tutorial for 24.05 has its bare flag, its own output bound and separate engine folders", () => {
  const plan = enginePlan(engineSpec("llava-1.5-7b", { release: "24.05" }));
  expect(byFlag(namedWords(plan, "llm"))).toEqual(
    byFlag(
      shellWords(
        "trtllm-build --checkpoint_dir <checkpoint> --output_dir <llm> --gemm_plugin float16 --use_fused_mlp" +
          " --max_batch_size 1 --max_input_len 2048 --max_output_len 512 --max_multimodal_len 576",
      ),
    ),
  );
  expect(namedWords(plan, "check").join(" ")).toContain(
    "--visual_engine_dir <vision> --llm_engine_dir <llm> --decoder_llm --input_text",
  );
});

test("a shell line has one line for each flag with its values", () => {
  expect(
    shellLine(["trtllm-build", "--output_dir", "/e/llm", "--use_fused_mlp=enable", "--max_batch_size", "8"]),
  ).toBe("trtllm-build \\\n  --output_dir /e/llm \\\n  --use_fused_mlp=enable \\\n  --max_batch_size 8");
});

test("a shell line begins with the environment, sorted", () => {
  expect(shellLine(["python3", "run.py"], { PYTHONPATH: "/store/code/VILA", PMIX_MCA_gds: "hash" })).toBe(
    "PMIX_MCA_gds=hash PYTHONPATH=/store/code/VILA python3 run.py",
  );
});

test.each([
  ["*.safetensors", "'*.safetensors'"],
  ["\n Which city is this?", "$'\\n Which city is this?'"],
  ["it's", "'it'\\''s'"],
  ["", "''"],
  ["$HOME", "'$HOME'"],
  ["llava-hf/llava-1.5-7b-hf", "llava-hf/llava-1.5-7b-hf"],
])("a shell line has the word %j as %s", (word, quoted) => {
  expect(shellLine(["echo", word])).toBe(`echo ${quoted}`);
});

test("a shell line gives bash the same words and environment", () => {
  const word = fc.oneof(
    fc.string({ unit: "grapheme" }),
    fc.string({
      unit: fc.constantFrom("'", '"', "\\", "\n", "\t", "\r", " ", "$", "-", "=", "!", "`", "a"),
    }),
  );
  const text = word.filter((value) => !value.includes("\0") && value.isWellFormed());
  fc.assert(
    fc.property(fc.array(text, { minLength: 1, maxLength: 6 }), text, (words, value) => {
      const environment = { ENGINE_ROOM_TEST: value };
      const typed = [
        shellLine(["printf", "%s\\0", ...words], environment),
        shellLine(["printenv", "ENGINE_ROOM_TEST"], environment),
      ];
      expect(execFileSync("bash", ["-c", typed.join("\n")], { encoding: "utf8" })).toBe(
        `${words.map((each) => `${each}\0`).join("")}${value}\n`,
      );
    }),
    { numRuns: times(15, 40) },
  );
});
