/** Checks the encoders' vectors: against published values, and against each other. */
import type { EncodersSpec } from "../../infra/plan/spec.ts";
import { goldenPicture, SAMPLE_IMAGE_DATA_URL, Skipped } from "../ask/golden.ts";
import { imageUrl } from "../ask/question.ts";
import { encode, fetchWithin, gatewayHeaders } from "../http.ts";
import type { SamplePicture } from "../seed/samples.ts";
import type { Check, EncoderCheckName, Level } from "./check.ts";

type Precision = EncodersSpec["precision"];

interface AskedEncoders {
  /** Address of their Triton. */
  readonly http: string;
  readonly gateway: string;
  readonly apiKey: string | undefined;
  readonly precision: Precision;
  /** Maximum rows of one request. */
  readonly maxBatchSize: number;
  /** Name of the text encoder. */
  readonly text: string;
  /** Whether it serves a clip_text. */
  readonly hasClipText: boolean;
  /** Captions and ids of the sample collection. */
  readonly samples: readonly SamplePicture[];
}

/** Example of the sentence-transformers documentation (https://sbert.net, "Quickstart") with this encoder, four digits. */
const PUBLISHED_ENCODER = "all-MiniLM-L6-v2";
const PUBLISHED_TEXTS = [
  "The weather is lovely today.",
  "It's so sunny outside!",
  "He drove to the stadium.",
] as const;
const PUBLISHED_SIMILARITIES = [
  { texts: [0, 1], similarity: 0.666 },
  { texts: [0, 2], similarity: 0.1046 },
  { texts: [1, 2], similarity: 0.1411 },
] as const;

/**
 * How far a similarity may be from the published one. fp32: its four digits. fp16: eleven bits of each number, through all
 * layers; assumed. int8: the builder keeps graphs whose vectors have a cosine of 0.9 or more with those before
 * (containers/python/engine_room/encoder_builder/calibrate.py), so two of them may turn as far as this; assumed.
 */
const SIMILARITY_TOLERANCE: Readonly<Record<Precision, number>> = { fp32: 1e-4, fp16: 5e-3, int8: 0.1 };

/** How far a number of a vector may be from the same one in another batch: other kernels, other order of sums. */
const BATCH_TOLERANCE: Readonly<Record<Precision, number>> = { fp32: 1e-4, fp16: 5e-3, int8: 2e-2 };

/** Pictures that can't be confused; the others of the collection show walls, gravel and grass. */
const DISTINCT_PICTURES: readonly string[] = [
  "sample-cat",
  "sample-astronaut",
  "sample-coffee",
  "sample-rocket",
  "sample-airplane",
  "sample-sheep",
];
/** The sample that is also a golden picture, which is part of this project. */
const BUNDLED = { id: "sample-coffee", picture: "coffee" } as const;

export function encoderChecks(encoders: AskedEncoders, level: Level): Check<EncoderCheckName>[] {
  return [
    { name: "similarities", level, run: () => compareSimilarities(encoders) },
    { name: "captions", level, run: () => findPictures(encoders) },
    { name: "batched", level, run: () => compareBatches(encoders) },
    { name: "ensemble", level, run: () => compareEnsemble(encoders) },
  ];
}

async function compareSimilarities(encoders: AskedEncoders) {
  const { precision } = encoders;
  if (encoders.text !== PUBLISHED_ENCODER) throw new Skipped("ownTextEncoder");
  const vectors = await oneByOne(PUBLISHED_TEXTS, (text) => encodeTexts(encoders, [text]));
  const differences = PUBLISHED_SIMILARITIES.map(({ texts: [left, right], similarity }) =>
    Math.abs(dot(vectors[left] as Vector, vectors[right] as Vector) - similarity),
  );
  const largest = Math.max(...differences);
  return within(largest, SIMILARITY_TOLERANCE[precision], "a similarity", "from the published one");
}

async function compareBatches(encoders: AskedEncoders) {
  const { maxBatchSize, precision } = encoders;
  if (maxBatchSize < 2) throw new Skipped("batchOfOne");
  const texts = PUBLISHED_TEXTS.slice(0, maxBatchSize);
  const images = [SAMPLE_IMAGE_DATA_URL, imageUrl(goldenPicture(BUNDLED.picture))];
  const largest = Math.max(
    maxDifference(
      await encodeTexts(encoders, texts),
      await oneByOne(texts, (text) => encodeTexts(encoders, [text])),
    ),
    maxDifference(
      await encodeImages(encoders, images),
      await oneByOne(images, (image) => encodeImages(encoders, [image])),
    ),
  );
  return within(largest, BATCH_TOLERANCE[precision], "a number of a vector", "from that of a single request");
}

async function compareEnsemble(encoders: AskedEncoders) {
  const [text, image] = [PUBLISHED_TEXTS[0], imageUrl(goldenPicture(BUNDLED.picture))];
  const both = await encode(encoders.http, "llava_ensemble", { text: [text], image: [image] });
  const largest = Math.max(
    maxDifference(rows(both, "text_embedding"), await encodeTexts(encoders, [text])),
    maxDifference(rows(both, "image_embedding"), await encodeImages(encoders, [image])),
  );
  return within(
    largest,
    BATCH_TOLERANCE[encoders.precision],
    "a number of a vector",
    "from that of the encoder",
  );
}

async function findPictures(encoders: AskedEncoders) {
  if (!encoders.hasClipText) throw new Skipped("noClipText");
  const samples = encoders.samples.filter(({ id }) => DISTINCT_PICTURES.includes(id));
  const pictures = await availablePictures(encoders, samples);
  const captions = await oneByOne(samples, async ({ text }) =>
    rows(await encode(encoders.http, "clip_text", { text: [text] }), "text_embedding"),
  );
  const vectors = await oneByOne(pictures, ({ image }) => encodeImages(encoders, [image]));
  const wrong = nearestTexts(vectors, captions).flatMap((found, index) => {
    const id = pictures[index]?.id;
    return samples[found]?.id === id ? [] : [`${id} is nearest to the caption of ${samples[found]?.id}`];
  });
  if (wrong.length > 0) throw new Error(wrong.join("; "));
  return {
    text: `${pictures.length} pictures, each nearest to its own of ${samples.length} captions`,
    figures: { pictures: pictures.length, captions: samples.length },
  };
}

/** The bundled picture, and those that are documents of the stack (`npx engine-room seed`). */
async function availablePictures({ gateway, apiKey }: AskedEncoders, samples: readonly SamplePicture[]) {
  const found: { readonly id: string; readonly image: string }[] = [];
  for (const { id } of samples) {
    if (id === BUNDLED.id) {
      found.push({ id, image: imageUrl(goldenPicture(BUNDLED.picture)) });
      continue;
    }
    const response = await fetchWithin(`${gateway}/v1/documents/${id}/image`, {
      headers: gatewayHeaders(apiKey),
    });
    const bytes = Buffer.from(await response.arrayBuffer());
    const type = response.headers.get("content-type") ?? "image/jpeg";
    if (response.ok) found.push({ id, image: `data:${type};base64,${bytes.toString("base64")}` });
  }
  return found;
}

function within(largest: number, tolerance: number, what: string, from: string) {
  if (!(largest <= tolerance)) {
    throw new Error(`${what} is ${largest.toExponential(1)} ${from}, more than ${tolerance}`);
  }
  return { text: `at most ${largest.toExponential(1)} ${from}`, figures: { maxDifference: largest } };
}

async function oneByOne<T>(
  items: readonly T[],
  encode: (item: T) => Promise<readonly Vector[]>,
): Promise<Vector[]> {
  const vectors: Vector[] = [];
  for (const item of items) vectors.push(...(await encode(item)));
  return vectors;
}

async function encodeTexts(encoders: AskedEncoders, texts: readonly string[]): Promise<Vector[]> {
  return rows(await encode(encoders.http, "text_encoder", { text: texts }), "text_embedding");
}

async function encodeImages(encoders: AskedEncoders, images: readonly string[]): Promise<Vector[]> {
  return rows(await encode(encoders.http, "vision_encoder", { image: images }), "image_embedding");
}

/** Rows of an output. @throws Error if the answer lacks it. */
function rows(outputs: Awaited<ReturnType<typeof encode>>, name: string): Vector[] {
  const output = outputs.find((one) => one.name === name);
  if (output === undefined) throw new Error(`the answer has no ${name}`);
  const [count = 0, dimension = 0] = output.shape;
  return Array.from({ length: count }, (_, row) => output.data.slice(row * dimension, (row + 1) * dimension));
}

export type Vector = readonly number[];

/** Cosine of vectors of unit length. */
export function dot(left: Vector, right: Vector): number {
  return left.reduce((sum, value, index) => sum + value * (right[index] ?? Number.NaN), 0);
}

/** Largest difference of any two numbers at the same place; NaN if the lengths differ. */
export function maxDifference(left: readonly Vector[], right: readonly Vector[]): number {
  const [numbers, others] = [left.flat(), right.flat()];
  if (numbers.length !== others.length) return Number.NaN;
  return Math.max(0, ...numbers.map((value, index) => Math.abs(value - (others[index] ?? Number.NaN))));
}

/** Index of the nearest text to each picture. */
export function nearestTexts(pictures: readonly Vector[], texts: readonly Vector[]): number[] {
  return pictures.map((picture) => {
    const similarities = texts.map((text) => dot(picture, text));
    return similarities.indexOf(Math.max(...similarities));
  });
}
