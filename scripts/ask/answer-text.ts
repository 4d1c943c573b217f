/** Text of an answer that comes in events, as a person wants to see it. */
import type { PreparedRequest } from "./prepared-request.ts";

/** Turns the events' texts into new text, without the prompt where the model repeats it. */
export class AnswerText {
  readonly #streamedText: PreparedRequest["streamedText"];
  readonly #echo: string;
  #all = "";
  #shown = "";

  constructor({ streamedText, echo }: Pick<PreparedRequest, "streamedText" | "echo">) {
    this.#streamedText = streamedText;
    this.#echo = echo;
  }

  /** @returns What is new to show; empty while it may still be the prompt, or half a character. */
  push(text: string): string {
    this.#all = this.#streamedText === "cumulative" ? text : this.#all + text;
    const isPartOfEcho = this.#all.length < this.#echo.length && this.#echo.startsWith(this.#all);
    // A character whose bytes are not all there yet comes as U+FFFD, and right with a later event.
    return isPartOfEcho ? "" : this.#advance(this.#withoutEcho().replace(/\uFFFD+$/, ""));
  }

  /** @returns What was held back. */
  end(): string {
    return this.#advance(this.#withoutEcho());
  }

  #withoutEcho(): string {
    return this.#all.startsWith(this.#echo) ? this.#all.slice(this.#echo.length) : this.#all;
  }

  #advance(text: string): string {
    if (!text.startsWith(this.#shown)) return "";
    const fresh = text.slice(this.#shown.length);
    this.#shown = text;
    return fresh;
  }
}
