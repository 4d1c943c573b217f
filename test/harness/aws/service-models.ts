/** AWS's own models of its APIs, as botocore has them: an operation's parameters, and checks of values against them. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gunzipSync } from "node:zlib";
import { SECRET_PLACEHOLDER, UNKNOWN_PLACEHOLDER } from "../../../scripts/program/serialized.ts";

/** `eks:CreateCluster`: the name of botocore's folder, and the operation. */
export type OperationName = `${string}:${string}`;

export interface Shape {
  readonly type:
    | "structure"
    | "list"
    | "map"
    | "string"
    | "integer"
    | "long"
    | "float"
    | "double"
    | "boolean"
    | "timestamp"
    | "blob";
  readonly members?: Readonly<Record<string, { readonly shape: string }>>;
  readonly required?: readonly string[];
  readonly member?: { readonly shape: string };
  readonly key?: { readonly shape: string };
  readonly value?: { readonly shape: string };
  readonly enum?: readonly string[];
  /** Bounds of a number's value, or of the length of a text, list or map. */
  readonly min?: number;
  readonly max?: number;
  readonly pattern?: string;
}

interface Model {
  readonly operations: Readonly<Record<string, { readonly input?: { readonly shape: string } }>>;
  readonly shapes: Readonly<Record<string, Shape>>;
}

/** The shapes of one service. */
export class ServiceModel {
  readonly #model: Model;

  constructor(file: string) {
    this.#model = JSON.parse(gunzipSync(readFileSync(file)).toString("utf8")) as Model;
  }

  /** @throws Error when the service has no such operation. */
  input(operation: string): Shape {
    const name = this.#model.operations[operation]?.input?.shape;
    if (name === undefined) throw new Error(`The model has no operation ${operation} with arguments.`);
    return this.shape(name);
  }

  /** @throws Error when the service has no such shape. */
  shape(name: string): Shape {
    const shape = this.#model.shapes[name];
    if (shape === undefined) throw new Error(`The model has no shape ${name}.`);
    return shape;
  }

  /**
   * Reasons for which AWS would refuse a value: a sentence each, with its place.
   *
   * @param path - The value's path, dotted; elements of lists have no index.
   * @param isFilled - Whether a missing required member is filled in elsewhere.
   */
  problems(shape: Shape, value: unknown, path: string, isFilled: (path: string) => boolean): string[] {
    if (isHidden(value)) return [];
    switch (shape.type) {
      case "structure":
        return this.#structureProblems(shape, value, path, isFilled);
      case "list": {
        if (!Array.isArray(value)) return [`${path} is ${show(value)}, and no list`];
        const member = this.shape(shape.member?.shape ?? "");
        return [
          ...lengthProblems(shape, value.length, `${path} has`, "elements"),
          ...value.flatMap((element) => this.problems(member, element, path, isFilled)),
        ];
      }
      case "map": {
        if (!isObject(value)) return [`${path} is ${show(value)}, and no map`];
        const entries = Object.entries(value);
        const [keyShape, valueShape] = [shape.key, shape.value].map((one) => this.shape(one?.shape ?? ""));
        return [
          ...lengthProblems(shape, entries.length, `${path} has`, "entries"),
          ...entries.flatMap(([key, inner]) => [
            ...this.problems(keyShape as Shape, key, `the key ${key} of ${path}`, isFilled),
            ...this.problems(valueShape as Shape, inner, `${path}.${key}`, isFilled),
          ]),
        ];
      }
      default:
        return scalarProblems(shape, value, path);
    }
  }

  #structureProblems(
    shape: Shape,
    value: unknown,
    path: string,
    isFilled: (path: string) => boolean,
  ): string[] {
    if (!isObject(value)) return [`${path} is ${show(value)}, and no structure`];
    const below = (name: string) => (path === "" ? name : `${path}.${name}`);
    const missing = (shape.required ?? [])
      .filter((name) => value[name] === undefined && !isFilled(below(name)))
      .map((name) => `${below(name)} is required and not there`);
    const members = Object.entries(value).flatMap(([name, inner]) => {
      const member = shape.members?.[name];
      if (member === undefined) return [`${below(name)} is no parameter`];
      return this.problems(this.shape(member.shape), inner, below(name), isFilled);
    });
    return [...missing, ...members];
  }
}

export class ServiceModels {
  readonly #folder: string;
  readonly #models = new Map<string, ServiceModel>();

  /** @param python - Interpreter of an environment with botocore. */
  constructor(python: string) {
    const library = join(dirname(python), "..", "lib");
    const version = readdirSync(library).find((name) => name.startsWith("python3"));
    this.#folder = join(library, version ?? "", "site-packages/botocore/data");
  }

  /** @param name - Of botocore's folder: `ec2`, `elbv2`, `secretsmanager`. */
  service(name: string): ServiceModel {
    let model = this.#models.get(name);
    if (model === undefined) {
      // Folders are dates; clients use the newest.
      const version = readdirSync(join(this.#folder, name)).toSorted().at(-1);
      model = new ServiceModel(join(this.#folder, name, version ?? "", "service-2.json.gz"));
      this.#models.set(name, model);
    }
    return model;
  }

  /**
   * Values that a shape of texts allows: `ec2`, `InstanceType`. @throws Error if the shape does not list its values.
   */
  values(service: string, shape: string): readonly string[] {
    const values = this.service(service).shape(shape).enum;
    if (values === undefined) throw new Error(`${shape} of ${service} is no closed list of values.`);
    return values;
  }
}

/** Whether only AWS knows the value, or only its owner may see it. */
export function isHidden(value: unknown): boolean {
  return value === UNKNOWN_PLACEHOLDER || value === SECRET_PLACEHOLDER;
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const TYPE_OF: Readonly<Record<string, "string" | "number" | "boolean">> = {
  string: "string",
  // Text: the provider sends it as given.
  timestamp: "string",
  blob: "string",
  integer: "number",
  long: "number",
  float: "number",
  double: "number",
  boolean: "boolean",
};

function scalarProblems(shape: Shape, value: unknown, path: string): string[] {
  if (typeof value !== TYPE_OF[shape.type]) return [`${path} is ${show(value)}, and no ${shape.type}`];
  if (typeof value === "number") {
    if (["integer", "long"].includes(shape.type) && !Number.isInteger(value))
      return [`${path} is ${value}, and no ${shape.type}`];
    return lengthProblems(shape, value, `${path} is`, "");
  }
  if (typeof value !== "string" || shape.type !== "string") return [];
  if (shape.enum !== undefined && !shape.enum.includes(value))
    return [`${path} is ${show(value)}, and AWS takes ${listed(shape.enum)}`];
  return [
    ...lengthProblems(shape, [...value].length, `${path} has`, "characters"),
    ...(shape.pattern === undefined || wholePattern(shape.pattern).test(value)
      ? []
      : [`${path} is ${show(value)}, which does not match ${shape.pattern}`]),
  ];
}

function lengthProblems({ min, max }: Shape, count: number, what: string, unit: string): string[] {
  const given = `${what} ${count}${unit === "" ? "" : ` ${unit}`}`;
  if (min !== undefined && count < min) return [`${given}, and AWS takes ${min} at least`];
  if (max !== undefined && count > max) return [`${given}, and AWS takes ${max} at most`];
  return [];
}

/** Patterns of models are Java's, and match the whole text even without anchors. @throws SyntaxError */
export function wholePattern(pattern: string): RegExp {
  // JavaScript has no `(?i)` for a part. The models have it in a part `(?!…)`, which then does not find capital
  // letters.
  const whole = `^(?:${pattern.replace("(?i)", "")})$`;
  try {
    return new RegExp(whole, "u");
  } catch {
    // Escapes that the stricter form refuses.
    return new RegExp(whole);
  }
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}

function listed(values: readonly string[]): string {
  return values.length > 12
    ? `${values.slice(0, 12).join(", ")} and ${values.length - 12} more`
    : values.join(", ");
}
