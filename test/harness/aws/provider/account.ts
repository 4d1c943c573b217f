/**
 * An account of the stand-in: a folder with a file for each resource, because the engine starts a plugin for each
 * operation, and a list of all calls in order.
 */
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";

export type Properties = Readonly<Record<string, unknown>>;

export interface LiveResource {
  readonly type: string;
  /** The last part of its URN. */
  readonly name: string;
  readonly id: string;
  readonly inputs: Properties;
  /** Inputs, and the values that AWS adds. */
  readonly outputs: Properties;
}

export interface Call {
  readonly operation: "create" | "update" | "delete";
  readonly type: string;
  readonly name: string;
  readonly id: string | null;
  /** null when the call succeeded. */
  readonly refusal: string | null;
}

/** Refused calls. */
export function refusedOf(calls: readonly Call[]): readonly Call[] {
  return calls.filter(({ refusal }) => refusal !== null);
}

/** `update ec2/instance:Instance`, each once, sorted. */
export function changesOf(calls: readonly Call[]): readonly string[] {
  const changes = calls.map(({ operation, type }) => `${operation} ${type.slice("aws:".length)}`);
  return [...new Set(changes)].sort();
}

/** When resources of a type were deleted, as positions in the list. */
export function deletionsOf(calls: readonly Call[], type: string): readonly number[] {
  return calls.flatMap((call, index) => (call.operation === "delete" && call.type === type ? [index] : []));
}

export class Account {
  readonly #resources: string;
  readonly #calls: string;
  readonly #failures: string;

  /** @param folder - Created if missing. */
  constructor(folder: string) {
    this.#resources = join(folder, "resources");
    this.#calls = join(folder, "calls.jsonl");
    this.#failures = join(folder, "failures.json");
    mkdirSync(this.#resources, { recursive: true });
  }

  live(): readonly LiveResource[] {
    return readdirSync(this.#resources).map((file) => readJson(join(this.#resources, file)));
  }

  /** Ids are of one type: a role and a profile may have the same name. */
  find(type: string, id: string): LiveResource | undefined {
    const file = this.#file(type, id);
    return existsSync(file) ? readJson(file) : undefined;
  }

  keep(resource: LiveResource): void {
    writeFileSync(this.#file(resource.type, resource.id), JSON.stringify(resource));
  }

  remove({ type, id }: LiveResource): void {
    rmSync(this.#file(type, id));
  }

  /** Lets the next resource of a type be created without becoming ready, for AWS's given reason. */
  failNext(type: string, reason: string): void {
    writeFileSync(this.#failures, JSON.stringify({ type, reason }));
  }

  /** @returns Why a resource that was made does not become what it should, once; null: it does. */
  takeFailure(type: string): string | null {
    if (!existsSync(this.#failures)) return null;
    const failure = JSON.parse(readFileSync(this.#failures, "utf8")) as { type: string; reason: string };
    if (failure.type !== type) return null;
    rmSync(this.#failures);
    return failure.reason;
  }

  record(call: Call): void {
    appendFileSync(this.#calls, `${JSON.stringify(call)}\n`);
  }

  /** All calls so far, in order. */
  calls(): readonly Call[] {
    if (!existsSync(this.#calls)) return [];
    const lines = readFileSync(this.#calls, "utf8").trimEnd().split("\n");
    return lines.map((line) => JSON.parse(line) as Call);
  }

  #file(type: string, id: string): string {
    return join(this.#resources, `${encodeURIComponent(`${type} ${id}`)}.json`);
  }
}

function readJson(file: string): LiveResource {
  return JSON.parse(readFileSync(file, "utf8")) as LiveResource;
}

/** All texts of a value at any depth, except tags and names given by the user. */
export function texts(value: unknown): readonly string[] {
  if (typeof value === "string") return [value];
  if (typeof value !== "object" || value === null) return [];
  if (Array.isArray(value)) return value.flatMap(texts);
  return Object.entries(value).flatMap(([key, inner]) => (OWN_WORDS.has(key) ? [] : texts(inner)));
}

const OWN_WORDS: ReadonlySet<string> = new Set(["name", "tags", "tagsAll", "description"]);
