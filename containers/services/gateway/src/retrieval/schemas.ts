/** Requests and answers of /v1/documents, /v1/match and /v1/answer. Unknown fields are refused. */
import { z } from "zod";
import { errorResponse, usage } from "../openai/schemas.ts";

/** Documents of one request. */
export const MOST_DOCUMENTS = 256;
/** Longest text, as for the encoders. */
export const LONGEST_TEXT_BYTES = 65_536;
/** Largest metadata as JSON. */
export const LONGEST_METADATA_BYTES = 16_384;
/** Maximum levels of nesting, the metadata itself included. */
const DEEPEST_METADATA = 6;
/** Documents of a page of GET /v1/documents. */
const LARGEST_PAGE = 500;
/** Default number of matches. */
const DEFAULT_MATCHES = 5;
/** Maximum number of matches. */
export const MOST_MATCHES = 100;
/** Default characters of a text in a match. */
const DEFAULT_TEXT_CHARACTERS = 1000;
/** Maximum characters of all texts of a match's answer. */
export const MOST_MATCHED_CHARACTERS = 1_000_000;

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
  .record(z.string(), z.unknown())
  .superRefine((value, context) => {
    const message = metadataProblem(value);
    if (message !== undefined) context.addIssue({ code: "custom", message });
  })
  .describe(`Any JSON object of up to ${LONGEST_METADATA_BYTES} bytes; filters of a match look at it.`);

const UNSAFE_KEY = /^\$|[.[\]"\p{Cc}]|^__proto__$|^$/u;

function metadataProblem(value: object): string | undefined {
  const bytes = Buffer.byteLength(JSON.stringify(value));
  if (bytes > LONGEST_METADATA_BYTES) {
    return `has ${bytes} bytes as JSON, and the limit is ${LONGEST_METADATA_BYTES}; shorten it`;
  }
  return nestingProblem(value, 1);
}

function nestingProblem(value: unknown, depth: number): string | undefined {
  if (typeof value === "string" && !value.isWellFormed()) return "must be well-formed Unicode";
  if (typeof value !== "object" || value === null) return undefined;
  if (depth > DEEPEST_METADATA) return `is nested more than ${DEEPEST_METADATA} levels deep; flatten it`;
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

/** An image of a request. A file of a multipart form arrives as its bytes. */
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

/** Required of documents and queries. */
function hasContent({ text, image }: { readonly text?: unknown; readonly image?: unknown }): boolean {
  return text !== undefined || image !== undefined;
}
const NO_CONTENT = "needs a text, an image, or both";

/** A schema as the API's description shows it. */
function jsonSchema(schema: z.ZodType) {
  const { $schema: _, ...shown } = z.toJSONSchema(schema, { unrepresentable: "any", io: "input" });
  return shown;
}

/** One document. */
export const documentRequest = z
  .strictObject({
    id: documentId.optional().describe("Default: a new UUID. A document that has this id is replaced."),
    text: text.optional(),
    image: image.optional(),
    metadata: metadata.optional(),
  })
  .refine(hasContent, NO_CONTENT)
  .meta({ examples: [{ text: "A lighthouse on a cliff." }] });

/** Several documents, each checked on its own, so that a wrong one does not keep the others out. */
export const batchRequest = z.strictObject({
  documents: z
    .array(z.unknown().meta(jsonSchema(documentRequest)))
    .min(1)
    .max(
      MOST_DOCUMENTS,
      `must hold ${MOST_DOCUMENTS} documents or fewer; send the others in a request of their own`,
    ),
});

/** Body of POST /v1/documents as the API's description shows it: several documents if there is `documents`, else one. */
export const writeRequest = z.unknown().meta({ anyOf: [documentRequest, batchRequest].map(jsonSchema) });

export const writeResponse = z.object({
  documents: z.array(
    z.object({
      id: z.string().nullable().describe("null if a rejected document has no id."),
      status: z.enum(["created", "updated", "unchanged", "failed"]),
      error: errorResponse.shape.error.omit({ type: true }).optional(),
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
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(LARGEST_PAGE)
    .default(50)
    .describe("Documents at most; a page of long ones ends earlier."),
  after: documentId.optional().describe("Id of the last document of the page before."),
});

export const listResponse = z.object({
  documents: z.array(documentResponse),
  next: z.string().nullable().describe("`after` of the next page; null at the end."),
});

/** Conditions of a filter. */
const MOST_CONDITIONS = 32;
const MOST_VALUES = 256;
/** Longest text that is compared. */
const LONGEST_TEXT = 1024;

/**
 * A path in metadata: names that the vector database's own path syntax takes as they are
 * (https://qdrant.tech/documentation/concepts/payload/#json-path).
 */
const path = z
  .string()
  .max(256)
  .regex(
    /^metadata(?:\.[A-Za-z0-9_-]+)+$/,
    "must be metadata.KEY, or metadata.KEY.KEY, with keys of letters, digits and _ -",
  );

const scalar = z.union([z.string().max(LONGEST_TEXT), z.number(), z.boolean()]);
export type Scalar = z.infer<typeof scalar>;

const condition = z.union(
  [
    scalar,
    z.strictObject({ in: z.array(scalar).min(1).max(MOST_VALUES) }),
    z
      .strictObject({
        gt: z.number().optional(),
        gte: z.number().optional(),
        lt: z.number().optional(),
        lte: z.number().optional(),
      })
      .refine((range) => Object.keys(range).length > 0, "must hold one of in, gt, gte, lt, lte"),
  ],
  {
    error:
      "must be a text, number or boolean to be equal to, { in: [...] }, or { gt, gte, lt, lte } with numbers",
  },
);

/** All conditions must hold; a list in the metadata matches if one of its values does. */
export const filterSchema = z
  .record(path, condition)
  .refine(
    (filter) => Object.keys(filter).length <= MOST_CONDITIONS,
    `must hold ${MOST_CONDITIONS} conditions or fewer`,
  )
  .describe(
    'By path: "metadata.year": 2020, "metadata.tag": { "in": ["a", "b"] }, "metadata.size": { "gte": 10, "lt": 20 }.',
  );
export type FilterInput = z.infer<typeof filterSchema>;

const topK = z
  .int()
  .min(1)
  .max(MOST_MATCHES, `must be ${MOST_MATCHES} or less`)
  .default(DEFAULT_MATCHES)
  .describe("Matches at most.");

/** Body of POST /v1/match. */
export const matchRequest = z
  .strictObject({
    text: text.optional(),
    image: image.optional(),
    topK,
    filter: filterSchema.optional(),
    textCharacters: z
      .int()
      .min(0)
      .max(LONGEST_TEXT_BYTES)
      .default(DEFAULT_TEXT_CHARACTERS)
      .describe("Maximum length of each match's text; GET /v1/documents/{id} returns all of it."),
    via: z
      .enum(["vectors", "describe"])
      .default("vectors")
      .describe(
        "`describe`: a vision-language model describes the image, and matches are found by the description.",
      ),
  })
  .refine(hasContent, NO_CONTENT)
  .refine(
    ({ via, text: words, image: picture }) =>
      via !== "describe" || (picture !== undefined && words === undefined),
    {
      message: "describe takes an image and no text: the description is the text",
      path: ["via"],
    },
  )
  .refine((request) => request.topK * request.textCharacters <= MOST_MATCHED_CHARACTERS, {
    message: `times topK must be ${MOST_MATCHED_CHARACTERS} or less; ask for fewer matches, or less of their texts`,
    path: ["textCharacters"],
  })
  .meta({ examples: [{ text: "lighthouse", topK: 3 }] });

const partScore = z.object({
  score: z.number().describe("Cosine similarity."),
  rank: z.int().describe("Place in the list of this part, from 1."),
});

const match = z.object({
  id: z.string(),
  score: z.number().describe("Score of the fusion, or the cosine similarity without a fusion."),
  scores: z.object({ text: partScore.optional(), image: partScore.optional() }),
  text: z.string().nullable(),
  textTruncated: z.boolean().describe("Whether the document's text is longer."),
  metadata: z.record(z.string(), z.unknown()),
  image: z.string().nullable().describe("Path of the image on this gateway."),
});

export const matchResponse = z.object({
  matches: z.array(match),
  fusion: z
    .object({ method: z.literal("rrf"), k: z.int() })
    .nullable()
    .describe(
      "score = sum of 1 / (k + rank) over the lists that hold the document; null if one list was asked for.",
    ),
  via: z.enum(["vectors", "describe"]),
  description: z.string().optional(),
});
export type MatchResponse = z.infer<typeof matchResponse>;
export type Match = z.infer<typeof match>;

/** Body of POST /v1/answer. */
export const answerRequest = z.strictObject({
  question: text,
  image: image.optional(),
  topK,
  filter: filterSchema.optional(),
  model: z.string().min(1).max(256).optional(),
  stream: z.boolean().optional(),
  maxTokens: z.int().min(1).optional().describe("Maximum output tokens."),
});

/** A match with a text. */
const source = match.pick({ id: true, score: true, image: true }).extend({ text: z.string() });

const answerHead = z.object({
  sources: z.array(source).describe("Documents that the model was given, in the order of their scores."),
  model: z.string(),
  imageUsed: z.boolean().describe("Whether the model was given the image of the question."),
  note: z.string().optional(),
});
export type AnswerHead = z.infer<typeof answerHead>;

export const answerResponse = answerHead.extend({
  answer: z.string(),
  finishReason: z.enum(["stop", "length"]),
  usage,
});

/** Numbers of documents. */
export const reindexResponse = z.object({
  documents: z.int().describe("Documents that were compared."),
  indexed: z.int().describe("Documents whose vectors were missing or outdated, and were rebuilt."),
  removed: z.int().describe("Vectors without a document, which were removed."),
  refused: z
    .int()
    .describe(
      "Documents that the encoder rejects, or whose image is missing. They are not found; the log has the reason.",
    ),
});
export type ReindexResponse = z.infer<typeof reindexResponse>;
