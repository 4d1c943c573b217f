/**
 * Filters for an answer's text, and an estimate of its tokens when the model does not count. The output of a filter does
 * not depend on the sizes of the pieces.
 */

export interface TextFilter {
  /** Returns the text that is final so far. */
  push(text: string): string;
  /** Returns the rest at the end. */
  flush(): string;
}

/** Turns "all text so far" into the new text. */
export class CumulativeFilter implements TextFilter {
  #sent = "";
  #latest = "";

  push(text: string): string {
    this.#latest = text;
    // A character whose bytes are not all there yet is decoded as U+FFFD and replaced by the next piece.
    return this.#advance(text.replace(/\uFFFD+$/, ""));
  }

  flush(): string {
    return this.#advance(this.#latest);
  }

  #advance(text: string): string {
    if (!text.startsWith(this.#sent)) return "";
    const fresh = text.slice(this.#sent.length);
    this.#sent = text;
    return fresh;
  }
}

/** Removes the prompt from the start of an answer, if the answer repeats it. */
export class EchoFilter implements TextFilter {
  readonly #prompt: string;
  #head: string | undefined = "";

  constructor(prompt: string) {
    this.#prompt = prompt;
  }

  push(text: string): string {
    if (this.#head === undefined) return text;
    this.#head += text;
    if (this.#head.length < this.#prompt.length && this.#prompt.startsWith(this.#head)) return "";
    return this.flush();
  }

  flush(): string {
    const head = this.#head ?? "";
    this.#head = undefined;
    return head.startsWith(this.#prompt) ? head.slice(this.#prompt.length) : head;
  }
}

/** Ends an answer before the first stop word, and holds back what may become one. */
export class StopFilter implements TextFilter {
  readonly #stopWords: readonly string[];
  #held = "";
  #isStopped = false;

  constructor(stopWords: readonly string[]) {
    this.#stopWords = stopWords;
  }

  /** Whether a stop word has been found; later text is dropped. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  push(text: string): string {
    if (this.#isStopped) return "";
    const all = this.#held + text;
    // The stop word that is complete first ends the answer, whatever could still have become of a longer one.
    const [match] = this.#stopWords
      .map((word) => ({ start: all.indexOf(word), length: word.length }))
      .filter(({ start }) => start !== -1)
      .sort((one, other) => one.start + one.length - other.start - other.length || one.start - other.start);
    this.#isStopped = match !== undefined;
    const held = Math.max(0, ...this.#stopWords.map((word) => undecidedTail(all, word)));
    const shown = match?.start ?? all.length - held;
    this.#held = match === undefined ? all.slice(shown) : "";
    return all.slice(0, shown);
  }

  flush(): string {
    const rest = this.#held;
    this.#held = "";
    return rest;
  }
}

/** Length of the longest end of the text with which the word could begin. */
function undecidedTail(text: string, word: string): number {
  for (let length = Math.min(word.length - 1, text.length); length > 0; length--) {
    if (word.startsWith(text.slice(text.length - length))) return length;
  }
  return 0;
}

/** English text has about four bytes a token in the usual vocabularies; a text has one token at least. */
const BYTES_PER_TOKEN = 4;

/** Tokens of a text, estimated by its size: the gateway has no tokenizer. */
export function estimateTokens(text: string): number {
  return Math.max(1, Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN));
}
