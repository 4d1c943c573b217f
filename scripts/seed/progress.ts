/** How far a load is: one line that is drawn again on a terminal, else a line every tenth. */

const BAR_CELLS = 30;
const REDRAW_MILLISECONDS = 100;

export class Progress {
  readonly #out: NodeJS.WriteStream;
  readonly #total: number;
  readonly #started = performance.now();
  #tenths = 0;
  #drawn = -Infinity;
  #done = 0;

  /** @param total - Documents. */
  constructor(total: number, out: NodeJS.WriteStream) {
    this.#total = total;
    this.#out = out;
  }

  /** @param done - Documents so far. */
  update(done: number): void {
    this.#done = done;
    if (this.#out.isTTY) {
      const now = performance.now();
      if (done < this.#total && now - this.#drawn < REDRAW_MILLISECONDS) return;
      this.#drawn = now;
      this.#draw();
      return;
    }
    const tenths = Math.floor((10 * done) / this.#total);
    if (tenths === this.#tenths) return;
    this.#tenths = tenths;
    this.#out.write(`  ${this.#counts()}\n`);
  }

  /** A line that stays. */
  note(line: string): void {
    if (!this.#out.isTTY) {
      this.#out.write(`  ${line}\n`);
      return;
    }
    this.#out.write(`\r\x1b[K  ${line}\n`);
    this.#draw();
  }

  /** Takes the bar away. */
  close(): void {
    if (this.#out.isTTY) this.#out.write("\r\x1b[K");
  }

  #draw(): void {
    const cells = Math.round((BAR_CELLS * this.#done) / this.#total);
    const bar = "█".repeat(cells) + "░".repeat(BAR_CELLS - cells);
    this.#out.write(`\r\x1b[K  ${bar} ${this.#counts()}${this.#rest()}`);
  }

  #counts(): string {
    const percent = Math.floor((100 * this.#done) / this.#total);
    return `${this.#done} of ${this.#total} documents (${percent} %)`;
  }

  #rest(): string {
    const perSecond = this.#done / ((performance.now() - this.#started) / 1000);
    if (this.#done === 0 || this.#done === this.#total) return "";
    return `, ${Math.ceil((this.#total - this.#done) / perSecond)} s left`;
  }
}
