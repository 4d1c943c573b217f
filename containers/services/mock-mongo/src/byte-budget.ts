/** Bytes that all connections may hold together. */
export class ByteBudget {
  #free: number;
  readonly #waiting: { readonly bytes: number; readonly go: () => void }[] = [];

  /** @param bytes - At least as many as the largest single request for room. */
  constructor(bytes: number) {
    this.#free = bytes;
  }

  /** Resolves when so many bytes are free and taken; those who ask first get them first. */
  async take(bytes: number): Promise<void> {
    if (this.#waiting.length === 0 && bytes <= this.#free) {
      this.#free -= bytes;
      return;
    }
    await new Promise<void>((go) => {
      this.#waiting.push({ bytes, go });
    });
  }

  give(bytes: number): void {
    this.#free += bytes;
    for (
      let next = this.#waiting[0];
      next !== undefined && next.bytes <= this.#free;
      next = this.#waiting[0]
    ) {
      this.#waiting.shift();
      this.#free -= next.bytes;
      next.go();
    }
  }
}
