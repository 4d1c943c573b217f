/** The list of the sample collection: which picture of which package, what it shows, and who says that it is free. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";

/** What a picture of the collection may be under: nothing to agree to, nobody to name. */
export const ALLOWED_LICENSES = ["CC0-1.0", "public-domain"] as const;

const packageSchema = z.strictObject({
  registry: z.enum(["npm", "pypi"]),
  version: z.string().regex(/^\d+(\.\d+)+$/),
});

const pictureSchema = z.strictObject({
  /** Id of the document. */
  id: z.string().regex(/^sample-[a-z-]+$/),
  package: z.string(),
  /** Within the package: of an npm tarball's `package/`, or of a wheel. */
  file: z.string().regex(/^[\w-]+(\/[\w-]+)*\.(jpg|png)$/),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  /** Our own caption: what the picture is found by. */
  text: z.string().min(1),
  title: z.string().min(1),
  author: z.string().min(1),
  license: z.enum(ALLOWED_LICENSES),
  /** The place in the package that says so. */
  licenseStatedIn: z.string().min(1),
  /** Page of the picture, or of the package where it names none. */
  source: z.url({ protocol: /^https?$/ }),
});

const questionSchema = z.strictObject({
  text: z.string().min(1),
  /** Id of the picture that it is asked about, whose document has to be among the sources of an answer. */
  picture: z.string(),
  /** Word that an answer has to hold. */
  answer: z.string().regex(/^[a-z]+$/),
});

const manifestSchema = z
  .strictObject({
    /** The question to try a stack with: on the page, in the README, by `npx engine-room smoke` and in tests. */
    question: questionSchema,
    packages: z.record(z.string(), packageSchema),
    pictures: z.array(pictureSchema).min(1),
  })
  .refine(({ question, pictures }) => pictures.some(({ id }) => id === question.picture), {
    message: "names none of the pictures",
    path: ["question", "picture"],
  });

export type SampleQuestion = z.infer<typeof questionSchema>;
export type SamplePicture = z.infer<typeof pictureSchema>;
export type SampleManifest = z.infer<typeof manifestSchema>;

/** @throws ZodError where samples.json is not what it should be. */
export function sampleManifest(): SampleManifest {
  return manifestSchema.parse(JSON.parse(readFileSync(join(import.meta.dirname, "samples.json"), "utf8")));
}

/** Whether an answer holds the word that it has to. */
export function isAnswered({ answer }: SampleQuestion, given: string): boolean {
  return new RegExp(`\\b${answer}\\b`, "i").test(given);
}
