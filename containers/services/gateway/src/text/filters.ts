/**
 * What happens to an answer's text on its way to the client. Each filter takes text in pieces of any size and gives out
 * the same whatever the pieces are; `push` returns what is certain so far, `flush` what is left at the end.
 */

export interface TextFilter {
  push(text: string): string;
  flush(): string;
}

/** Turns "all text so far" into what is new. */
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

/** Cuts the prompt off the head of an answer, if it is there. */
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

  /** Whether a stop word has come; all text after it is dropped. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  push(text: string): string {
    if (this.#isStopped) return "";
    const all = this.#held + text;
    const end = firstMatch(all, this.#stopWords);
    if (end !== -1) {
      this.#isStopped = true;
      this.#held = "";
      return all.slice(0, end);
    }
    const held = longestUndecidedTail(all, this.#stopWords);
    this.#held = all.slice(all.length - held);
    return all.slice(0, all.length - held);
  }

  flush(): string {
    const rest = this.#held;
    this.#held = "";
    return rest;
  }
}

/**
 * Where the answer ends: before the stop word that is complete first, whatever could still have become of a longer one.
 * -1 for none.
 */
function firstMatch(text: string, stopWords: readonly string[]): number {
  let best = { start: -1, end: Number.POSITIVE_INFINITY };
  for (const word of stopWords) {
    const start = text.indexOf(word);
    const end = start + word.length;
    if (start !== -1 && (end < best.end || (end === best.end && start < best.start))) best = { start, end };
  }
  return best.start;
}

/** Length of the longest end of the text with which a stop word could begin. */
function longestUndecidedTail(text: string, stopWords: readonly string[]): number {
  return Math.max(0, ...stopWords.map((word) => undecidedTail(text, word)));
}

function undecidedTail(text: string, word: string): number {
  for (let length = Math.min(word.length - 1, text.length); length > 0; length--) {
    if (word.startsWith(text.slice(text.length - length))) return length;
  }
  return 0;
}
