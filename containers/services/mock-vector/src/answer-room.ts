/** What one answer may hold. */
import { RequestError } from "./errors.ts";

const MAX_ANSWER_CHARACTERS = 64 * 1024 * 1024;

export class AnswerRoom {
  #left = MAX_ANSWER_CHARACTERS;

  /** @throws RequestError 400 when no so many are left. */
  take(characters: number): void {
    this.#left -= characters;
    if (this.#left >= 0) return;
    throw new RequestError(
      400,
      `Wrong input: the answer would have more than ${MAX_ANSWER_CHARACTERS} characters; ask for fewer points, fewer keys of the payload, or no vectors`,
    );
  }
}
