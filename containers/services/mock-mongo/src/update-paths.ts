/** Where an update writes to. */
import type { Document } from "bson";
import { isPlainObject } from "./documents.ts";
import { CommandError } from "./errors.ts";

/** A list is filled up with null to here at most, as in MongoDB. */
const MAX_PADDING = 1_500_000;

/** A dotted path within one document; a number is an index where there is a list. */
export class Place {
  readonly path: string;
  readonly #document: Document;
  readonly #parts: readonly string[];

  /** @throws CommandError 2 for a path that is none, 238 for one with `$`, 28 for one that leads through a value. */
  constructor(document: Document, path: string) {
    this.path = path;
    this.#document = document;
    this.#parts = path.split(".");
    if (this.#parts.includes("")) {
      throw new CommandError(
        2,
        `The update path '${path}' contains an empty field name, which is not allowed.`,
      );
    }
    if (this.#parts.some((part) => part.startsWith("$"))) {
      throw new CommandError(238, `The positional path '${path}' is not supported by this server`);
    }
  }

  get exists(): boolean {
    const parent = this.#parent();
    return parent !== undefined && Object.hasOwn(parent, this.#last);
  }

  get value(): unknown {
    const parent = this.#parent();
    return parent !== undefined && Object.hasOwn(parent, this.#last) ? parent[this.#last] : undefined;
  }

  set(value: unknown): void {
    let inner: Document = this.#document;
    for (const [index, part] of this.#parts.slice(0, -1).entries()) {
      if (!Object.hasOwn(inner, part)) put(inner, part, {});
      inner = this.#container(inner[part], index);
      this.#refuseName(inner, this.#parts[index + 1] ?? "");
    }
    put(inner, this.#last, value);
  }

  /** An element of a list becomes null, so that the others keep their places. */
  remove(): void {
    const parent = this.#parent();
    if (parent === undefined || !Object.hasOwn(parent, this.#last)) return;
    if (Array.isArray(parent)) put(parent, this.#last, null);
    else delete parent[this.#last];
  }

  get #last(): string {
    return this.#parts.at(-1) ?? "";
  }

  /** What holds the last part; undefined where the path ends before. */
  #parent(): Document | undefined {
    let inner: unknown = this.#document;
    for (const part of this.#parts.slice(0, -1)) {
      if (!isContainer(inner) || !Object.hasOwn(inner, part)) return undefined;
      inner = inner[part];
    }
    return isContainer(inner) ? inner : undefined;
  }

  #container(value: unknown, index: number): Document {
    if (isContainer(value)) return value;
    const element = this.#parts.slice(0, index + 1).join(".");
    throw new CommandError(
      28,
      `Cannot create field '${this.#parts[index + 1]}' in element '${element}': it is no document and no array`,
    );
  }

  #refuseName(container: Document, part: string): void {
    if (!Array.isArray(container)) return;
    if (/^\d{1,7}$/.test(part) && Number(part) - container.length <= MAX_PADDING) return;
    throw new CommandError(28, `Cannot create field '${part}' in an array: the path '${this.path}'`);
  }
}

function isContainer(value: unknown): value is Document {
  return Array.isArray(value) || isPlainObject(value);
}

function put(container: Document, key: string, value: unknown): void {
  if (Array.isArray(container)) {
    while (container.length < Number(key)) container.push(null);
    container[Number(key)] = value;
    return;
  }
  // Not by assignment: `__proto__` is a name like any other.
  Object.defineProperty(container, key, { value, writable: true, enumerable: true, configurable: true });
}
