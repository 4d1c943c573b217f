/** Plans the encoders: what is built, with which commands, under which content address, and what Triton loads. */
import { ConfigError } from "../../problems.ts";
import { jsonDigest } from "../canonical-json.ts";
import { ONNX_OPSET, textEncoders, visionEncoders } from "../catalogue/encoders.ts";
import type { Gpu, Release } from "../catalogue/types.ts";
import { gpuIdentity, shortKey } from "../engine/engine-plan.ts";
import { type PythonModelName, pythonModelFiles } from "../repository/cpu-models.ts";
import type { ModelConfig } from "../repository/model-config.ts";
import type { EncodersSpec } from "../spec.ts";
import {
  calibrateWords,
  type EncoderSubject,
  exportWords,
  type Numerics,
  numerics,
  trtexecWords,
} from "./build-steps.ts";
import { encoderProblems } from "./encoder-problems.ts";
import {
  clipTextFront,
  type EncoderDimensions,
  encoderEnsemble,
  TOWER_FILES,
  textFront,
  towerConfig,
  visionFront,
} from "./triton-models.ts";
import {
  ENCODER_MODELS,
  type EncoderKeyFields,
  type EncoderModelName,
  type EncoderModelPlan,
  type EncoderPlace,
  type EncoderPlan,
  type EncoderStep,
  type EncoderStepName,
  type EncoderTritonModel,
  type EncoderWord,
} from "./types.ts";

/**
 * Plans the encoders of a stack: CLIP's two towers and the sentence encoder.
 *
 * @param gpu GPU of the pool that runs them; null for a pool without.
 * @param migProfile Partition that they run in; absent: the whole GPU.
 * @throws ConfigError for what {@link encoderProblems} finds.
 */
export function encoderPlan(
  spec: EncodersSpec,
  release: Release,
  gpu: Gpu | null,
  migProfile?: string,
): EncoderPlan {
  const problems = encoderProblems(spec, gpu);
  if (problems.length > 0) throw new ConfigError(problems);

  const subjects = encoderSubjects(spec);
  const formats = numerics(spec.device, spec.precision, release);
  const image = `tritonserver:${release.tag}-py3`;
  const gpuName = spec.device === "gpu" && gpu !== null ? gpuIdentity({ gpu, migProfile }) : null;
  const commands = ENCODER_MODELS.map((name) => ({
    subject: subjects[name],
    commands: encoderCommands(spec, subjects[name], formats),
  }));
  const keyFields: EncoderKeyFields = {
    precision: spec.precision,
    // A plan runs on the very TensorRT that built it. No document has its number for every image; the tag stands for it.
    tensorRt: spec.device === "gpu" ? `that of ${image}` : null,
    gpu: gpuName,
    models: Object.fromEntries(
      commands.map(({ subject, commands: named }) => [subject.name, modelKey(subject, named)]),
    ),
  };
  const key = jsonDigest(keyFields);
  const directory = `/store/encoders/${shortKey(key)}`;

  const fronts = frontConfigs(spec, subjects);
  const models = commands.map(({ subject, commands: named }) => ({
    name: subject.name,
    encoder: subject.encoder,
    export: {
      ...located(named.export, subject, directory),
      repository: subject.row.source.repository,
      revision: subject.row.source.revision,
      inputs: subject.tower.inputs,
      output: subject.tower.output,
      dimension: subject.row.dimension,
      graph: subject.tower.graph,
      opset: ONNX_OPSET,
      dataType: formats.dataType,
    },
    steps: named.after.map((command) => located(command, subject, directory)),
    config: fronts[subject.name],
    towerConfig: towerConfig(spec, subject),
  }));
  return {
    device: spec.device,
    precision: spec.precision,
    key,
    shortKey: shortKey(key),
    keyFields,
    directory,
    image: `nvcr.io/nvidia/${image}`,
    gpu: gpuName,
    models,
    ensemble: fronts.llava_ensemble,
    tritonModels: tritonModels(spec, models, fronts.llava_ensemble),
  };
}

type Subjects = Readonly<{
  clip_text: EncoderSubject & { kind: "text" };
  text_encoder: EncoderSubject & { kind: "text" };
  vision_encoder: EncoderSubject & { kind: "vision" };
}>;

function encoderSubjects(spec: EncodersSpec): Subjects {
  const clip = { encoder: spec.vision, row: visionEncoders[spec.vision] };
  const sentences = { encoder: spec.text, row: textEncoders[spec.text] };
  return {
    clip_text: { ...clip, name: "clip_text", kind: "text", tower: clip.row.text },
    text_encoder: { ...sentences, name: "text_encoder", kind: "text", tower: sentences.row.text },
    vision_encoder: { ...clip, name: "vision_encoder", kind: "vision", tower: clip.row.vision },
  };
}

function frontConfigs(
  spec: EncodersSpec,
  subjects: Subjects,
): Readonly<Record<EncoderModelName | "llava_ensemble", ModelConfig>> {
  const { text_encoder: text, vision_encoder: vision } = subjects;
  const dimensions: EncoderDimensions = {
    text: { dimension: text.row.dimension, maxTokens: text.tower.maxTokens },
    vision: { dimension: vision.row.dimension },
  };
  return {
    clip_text: clipTextFront(spec, subjects.clip_text),
    text_encoder: textFront(spec, dimensions),
    vision_encoder: visionFront(spec, dimensions),
    llava_ensemble: encoderEnsemble(spec, dimensions),
  };
}

interface Command<Name extends EncoderStepName> {
  readonly name: Name;
  readonly words: readonly EncoderWord[];
}

interface Commands {
  readonly export: Command<"export">;
  readonly after: readonly Command<"calibrate" | "trtexec">[];
}

function encoderCommands(spec: EncodersSpec, subject: EncoderSubject, formats: Numerics): Commands {
  const { device, precision, maxBatchSize } = spec;
  const after: Command<"calibrate" | "trtexec">[] = [];
  if (precision === "int8") after.push({ name: "calibrate", words: calibrateWords(subject) });
  if (device === "gpu") {
    after.push({ name: "trtexec", words: trtexecWords(subject, precision, formats, maxBatchSize) });
  }
  return { export: { name: "export", words: exportWords(subject, formats) }, after };
}

function modelKey(subject: EncoderSubject, commands: Commands): EncoderKeyFields["models"][string] {
  const steps = [commands.export, ...commands.after].map(({ name, words }) => [
    name,
    words.map((word) => (typeof word === "string" ? word : `${word.before}<${word.place}>`)),
  ]);
  return {
    encoder: subject.encoder,
    weights: subject.row.source.repository,
    revision: subject.row.source.revision,
    steps: Object.fromEntries(steps),
  };
}

/** Names of the files that a model's steps write, below its folder. */
const FILES = { onnx: "model.onnx", quantized: "model.qdq.onnx", plan: "model.plan" } as const;

/** A command with its places filled in. */
function located<Name extends EncoderStepName>(
  command: Command<Name>,
  { name, encoder, row }: EncoderSubject,
  directory: string,
): EncoderStep<Name> {
  const folder = `${directory}/${name}`;
  const places: Readonly<Record<EncoderPlace, string>> = {
    // Where engines have theirs.
    weights: `/store/weights/${encoder}/${row.source.revision}`,
    assets: folder,
    onnx: `${folder}/${FILES.onnx}`,
    quantized: `${folder}/${FILES.quantized}`,
    plan: `${folder}/${FILES.plan}`,
  };
  return {
    ...command,
    argv: command.words.map((word) =>
      typeof word === "string" ? word : `${word.before}${places[word.place]}`,
    ),
  };
}

/** What a model in front of a tower reads, written by the export. */
const ASSETS: Readonly<Record<EncoderModelName, string>> = {
  clip_text: "tokenizer.json",
  text_encoder: "tokenizer.json",
  vision_encoder: "preprocess.json",
};

/** Its Python. */
const PYTHON: Readonly<Record<EncoderModelName, PythonModelName>> = {
  clip_text: "text_encoder",
  text_encoder: "text_encoder",
  vision_encoder: "vision_encoder",
};

function tritonModels(
  spec: EncodersSpec,
  models: readonly EncoderModelPlan[],
  ensemble: ModelConfig,
): readonly EncoderTritonModel[] {
  const file = TOWER_FILES[spec.device];
  const both = models.flatMap(({ name, config, towerConfig: tower }) => [
    {
      config,
      files: { [`1/${ASSETS[name]}`]: `${name}/${ASSETS[name]}` },
      sources: pythonModelFiles(PYTHON[name]),
    },
    { config: tower, files: { [`1/${file}`]: `${name}/${file}` }, sources: {} },
  ]);
  // An ensemble has no files, but a version folder.
  return [...both, { config: ensemble, files: {}, sources: {} }].sort((a, b) =>
    a.config.name < b.config.name ? -1 : 1,
  );
}
