/** Requests and answers of /v1/documents, /v1/match and /v1/answer. What these routes do not know is refused. */
import { z } from "zod";
import { usage } from "../openai/schemas.ts";
import { filterSchema } from "./filter.ts";

/** Documents of one request. */
const MOST_DOCUMENTS = 256;
/** Longest text; the encoders take no longer one. */
const LONGEST_TEXT_BYTES = 65_536;
/** Largest metadata as JSON. */
const LONGEST_METADATA_BYTES = 16_384;
/** Objects and lists inside one another, the metadata itself included. */
const DEEPEST_METADATA = 6;
/** Largest page of GET /v1/documents. */
const LARGEST_PAGE = 500;

const text = z
  .string()
  .refine((value) => value.trim() !== "", "must not be empty")
  .refine(
    (value) => Buffer.byteLength(value) <= LONGEST_TEXT_BYTES,
    `must have ${LONGEST_TEXT_BYTES} bytes or fewer; split it into several documents`,
  )
  .refine((value) => value.isWellFormed(), "must be well-formed Unicode");

export const documentId = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._:/@+=,-]{0,255}$/,
    "must be 1 to 256 letters, digits and . _ : / @ + = , - and begin with a letter or digit",
  );

const metadata = z
  .record(
    z
      .string()
      .regex(
        /^[^.$[\]"\p{Cc}][^.[\]"\p{Cc}]{0,127}$/u,
        'must be 1 to 128 characters, none of . [ ] ", and not begin with $',
      ),
    z.unknown(),
  )
  .superRefine((value, context) => {
    const message = metadataProblem(value);
    if (message !== undefined) context.addIssue({ code: "custom", message });
  })
  .describe(`Any JSON object of up to ${LONGEST_METADATA_BYTES} bytes; filters of a match look at it.`);

const UNSAFE_KEY = /^\$|[.[\]"\p{Cc}]|^__proto__$|^$/u;

function metadataProblem(value: object): string | undefined {
  const bytes = Buffer.byteLength(JSON.stringify(value));
  if (bytes > LONGEST_METADATA_BYTES) {
    return `has ${bytes} bytes as JSON, and ${LONGEST_METADATA_BYTES} are the most; leave something out`;
  }
  return nestingProblem(value, 1);
}

function nestingProblem(value: unknown, depth: number): string | undefined {
  if (typeof value === "string" && !value.isWellFormed()) return "must be well-formed Unicode";
  if (typeof value !== "object" || value === null) return undefined;
  if (depth > DEEPEST_METADATA) return `nests more than ${DEEPEST_METADATA} deep; make it flatter`;
  const isList = Array.isArray(value);
  for (const [key, inner] of Object.entries(value)) {
    if (!isList && (UNSAFE_KEY.test(key) || !key.isWellFormed())) {
      return `has the key ${JSON.stringify(key)}, and keys must not be empty, hold any of . [ ] ", or begin with $`;
    }
    const problem = nestingProblem(inner, depth + 1);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** What a client may give as image. A file of a multipart form arrives as its bytes. */
const image = z
  .union(
    [
      z.string().min(1),
      z.strictObject({ url: z.string().min(1) }),
      z.instanceof(Uint8Array).meta({ type: "string", format: "binary" }),
    ],
    { error: "must be a data URL, an https URL, { url }, or a file of a multipart form" },
  )
  .describe(
    "data:image/jpeg;base64,… (or png, webp), an https URL of a host that the gateway fetches from, or { url } with either; in a multipart form the file itself.",
  );
export type ImageSource = z.infer<typeof image>;

/** A schema as the API's description shows it. */
function jsonSchema(schema: z.ZodType) {
  const { $schema: _, ...shown } = z.toJSONSchema(schema, { unrepresentable: "any", io: "input" });
  return shown;
}

/** One document. */
export const documentRequest = z
  .strictObject({
    id: documentId
      .optional()
      .describe("Default: a fresh one. The same id again puts the new content in its place."),
    text: text.optional(),
    image: image.optional(),
    metadata: metadata.optional(),
  })
  .refine(({ text: words, image: picture }) => words !== undefined || picture !== undefined, {
    message: "needs text, or image, or both",
  });
export type DocumentRequest = z.infer<typeof documentRequest>;

/** Several documents, each checked on its own, so that a wrong one does not keep the others out. */
const batchRequest = z.strictObject({
  documents: z
    .array(z.unknown().meta(jsonSchema(documentRequest)))
    .min(1)
    .max(
      MOST_DOCUMENTS,
      `must hold ${MOST_DOCUMENTS} documents or fewer; send the others in a request of their own`,
    ),
});

/** Body of POST /v1/documents: several documents where there is `documents`, else one. */
export const writeRequest = z
  .unknown()
  .transform((body, context): z.infer<typeof batchRequest> | DocumentRequest => {
    const isBatch = typeof body === "object" && body !== null && "documents" in body;
    const parsed = (isBatch ? batchRequest : documentRequest).safeParse(body);
    if (parsed.success) return parsed.data;
    for (const issue of parsed.error.issues) context.issues.push(issue as (typeof context.issues)[number]);
    return z.NEVER;
  })
  .meta({ anyOf: [documentRequest, batchRequest].map(jsonSchema) });
export type WriteRequest = z.infer<typeof writeRequest>;

const errorObject = z.object({
  message: z.string(),
  param: z.string().nullable(),
  code: z.string().nullable(),
});

export const writeResponse = z.object({
  documents: z.array(
    z.object({
      id: z.string().nullable().describe("null where a wrong document has none."),
      status: z.enum(["created", "updated", "unchanged", "failed"]),
      error: errorObject.optional(),
    }),
  ),
});

const documentImage = z.object({ url: z.string(), width: z.int(), height: z.int() });

export const documentResponse = z.object({
  id: z.string(),
  text: z.string().nullable(),
  metadata: z.record(z.string(), z.unknown()),
  image: documentImage.nullable(),
  createdAt: z.string(),
  updatedAt: z.string(),
});

export const listQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(LARGEST_PAGE).default(50),
  after: documentId.optional().describe("Id of the last document of the page before."),
});

export const listResponse = z.object({
  documents: z.array(documentResponse),
  next: z.string().nullable().describe("`after` of the next page; null at the end."),
});

/** @param maxTopK - `retrieval.maxTopK` of the configuration. */
const topK = (maxTopK: number) =>
  z
    .int()
    .min(1)
    .max(maxTopK, `must be ${maxTopK} or less, the most that this gateway gives`)
    .optional()
    .describe("Matches at most.");

/** Body of POST /v1/match. */
export const matchRequest = (maxTopK: number) =>
  z
    .strictObject({
      text: text.optional(),
      image: image.optional(),
      topK: topK(maxTopK),
      filter: filterSchema.optional(),
      via: z
        .enum(["vectors", "describe"])
        .default("vectors")
        .describe(
          "`describe`: a vision-language model describes the image, and the description is looked for.",
        ),
    })
    .refine(({ text: words, image: picture }) => words !== undefined || picture !== undefined, {
      message: "needs text, or image, or both",
    })
    .refine(
      ({ via, text: words, image: picture }) =>
        via !== "describe" || (picture !== undefined && words === undefined),
      {
        message: "describe takes an image and no text: the description is the text",
        path: ["via"],
      },
    );

const partScore = z.object({
  score: z.number().describe("Cosine similarity."),
  rank: z.int().describe("Place in the list of this part, from 1."),
});

const match = z.object({
  id: z.string(),
  score: z.number().describe("Of the fusion; cosine similarity where there is none."),
  scores: z.object({ text: partScore.optional(), image: partScore.optional() }),
  text: z.string().nullable(),
  metadata: z.record(z.string(), z.unknown()),
  image: z.string().nullable().describe("Path of the image on this gateway."),
});

export const matchResponse = z.object({
  matches: z.array(match),
  fusion: z
    .object({ method: z.literal("rrf"), k: z.int() })
    .nullable()
    .describe(
      "score = sum of 1 / (k + rank) over the lists that hold the document; null where one list was asked for.",
    ),
  via: z.enum(["vectors", "describe"]),
  description: z.string().optional(),
});
export type MatchResponse = z.infer<typeof matchResponse>;
export type Match = z.infer<typeof match>;

/** Body of POST /v1/answer. */
export const answerRequest = (maxTopK: number) =>
  z.strictObject({
    question: text,
    image: image.optional(),
    topK: topK(maxTopK),
    filter: filterSchema.optional(),
    model: z.string().min(1).max(256).optional(),
    stream: z.boolean().optional(),
    maxTokens: z.int().min(1).optional(),
  });

const source = z.object({
  id: z.string(),
  text: z.string(),
  score: z.number(),
  image: z.string().nullable(),
});

const answerHead = z.object({
  sources: z.array(source).describe("Documents that the model was given, in the order of their scores."),
  model: z.string(),
  imageUsed: z.boolean().describe("Whether the model itself has seen the image of the question."),
  note: z.string().optional(),
});
export type AnswerHead = z.infer<typeof answerHead>;

export const answerResponse = answerHead.extend({
  answer: z.string(),
  finishReason: z.enum(["stop", "length"]),
  usage,
});
