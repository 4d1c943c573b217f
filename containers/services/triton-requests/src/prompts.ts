/** Prompts about images: the text around a question, and the marks that stand for images. */
import { RequestError } from "./errors.ts";
import { type ImageProfile, type RequestProfile, SPLIT_MARK } from "./profile.ts";

/** A bare question as the prompt that the model was trained on; a text model's prompt is the question itself. */
export function wrapQuestion({ image }: RequestProfile, question: string, imageCount: number): string {
  if (image === null) return question;
  const values = {
    question,
    marks: Array<string>(imageCount)
      .fill(image.mark ?? "")
      .join("\n"),
  };
  return image.prompt.replace(/\{(question|marks)\}/g, (_, name: "question" | "marks") => values[name]);
}

/** Marks of the models that this library knows; where none is expected, the tokenizer would read one as an empty image. */
const KNOWN_MARKS = [SPLIT_MARK, "<|image|>"];

/** @throws RequestError `image_marks_mismatch` unless the prompt has exactly one mark for each image, where it needs marks. */
export function checkMarks({ mark }: ImageProfile, text: string, imageCount: number): void {
  const stray = KNOWN_MARKS.find((known) => known !== mark && text.includes(known));
  if (stray !== undefined) {
    throw mismatch(
      mark === null
        ? `The prompt holds ${stray}, and the server places the image by itself; leave the mark out.`
        : `The prompt holds ${stray}, and this model's mark is ${mark}; write that one.`,
    );
  }
  if (mark === null) return;
  const marks = text.split(mark).length - 1;
  if (marks !== imageCount) {
    throw mismatch(
      `The prompt holds the mark ${mark} ${times(marks)}, and the request has ${imageCount === 1 ? "1 image" : `${imageCount} images`}; write one mark for each image.`,
    );
  }
  // Preprocessing drops the empty text between two of these and with it the second image.
  if (mark === SPLIT_MARK && text.includes(mark + mark)) {
    throw mismatch(`Two marks ${mark} stand side by side in the prompt; put a line break between them.`);
  }
}

function times(count: number): string {
  return count === 1 ? "once" : `${count} times`;
}

function mismatch(message: string): RequestError {
  return new RequestError("image_marks_mismatch", "text", message);
}
