/** How far a stack's first load of the samples came: a file beside its databases, which goes when their data go. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { orWhenMissing, writeWhole } from "../../components/local/provider/files.ts";

/** `begun`: some documents may be there. `settled`: nothing is to be loaded any more. `none`: it was never looked at. */
export type SampleState = "none" | "begun" | "settled";

export class SampleMark {
  readonly #file: string;

  /** @param dataDirectory - Absolute path of the folder of a stack's data. */
  constructor(dataDirectory: string) {
    this.#file = join(dataDirectory, "samples");
  }

  async read(): Promise<SampleState> {
    const content = await readFile(this.#file, "utf8").catch(orWhenMissing(undefined));
    if (content === undefined) return "none";
    // Whatever else somebody wrote into it: nothing comes back that was deleted.
    return content.trim() === "begun" ? "begun" : "settled";
  }

  /** @throws Error of the file system. */
  write(state: Exclude<SampleState, "none">): Promise<void> {
    return writeWhole(this.#file, `${state}\n`, 0o600);
  }
}
