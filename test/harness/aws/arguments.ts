/**
 * Checks resources of @pulumi/aws, as the calls that its provider makes of AWS's API, against AWS's models. The table
 * `operations` maps properties to parameters; a property with the name of a parameter, ignoring case, needs no row. An
 * unmapped property is a finding, so no argument goes unchecked by mistake.
 */
import { operations } from "./operations/index.ts";
import type { OperationRow, Target } from "./operations/row.ts";
import { isHidden, isObject, type ServiceModel, type ServiceModels, type Shape } from "./service-models.ts";

export interface AwsResource {
  /** `aws:eks/cluster:Cluster`. */
  readonly type: string;
  readonly name: string;
  readonly inputs: Readonly<Record<string, unknown>>;
}

/** Properties of every resource since version 7 of the provider. */
const EVERYWHERE: Readonly<Record<string, Target>> = { region: { own: "which endpoint is called" } };

/**
 * @returns A sentence for each argument that AWS would refuse, and for each unmapped property; empty for other
 * providers.
 */
export function argumentProblems(resource: AwsResource, models: ServiceModels): readonly string[] {
  const { type, name, inputs } = resource;
  if (!type.startsWith("aws:")) return [];
  const row = operations[type];
  const where = `${type} ${name}`;
  if (row === undefined) return [`${where}: no row of the table says which operation makes it`];
  return new Arguments(row, models).of(inputs).map((problem) => `${where}: ${problem}`);
}

class Arguments {
  readonly #row: OperationRow;
  readonly #models: ServiceModels;
  readonly #problems: string[] = [];
  /** Parameters by operation. */
  readonly #parameters = new Map<string, Record<string, unknown>>();

  constructor(row: OperationRow, models: ServiceModels) {
    this.#row = row;
    this.#models = models;
  }

  of(inputs: AwsResource["inputs"]): readonly string[] {
    // An operation without arguments may lack required parameters, too.
    this.#parameters.set(this.#row.operation, {});
    for (const [property, value] of Object.entries(inputs))
      if (value !== undefined) this.#take(property, value);
    for (const [operation, parameters] of this.#parameters) this.#check(operation, parameters);
    return this.#problems;
  }

  #take(property: string, value: unknown): void {
    const target = this.#targetOf(property);
    if (typeof target === "object" && "own" in target) return;
    const [operation, path] =
      typeof target === "object"
        ? [target.operation, target.parameter]
        : [this.#row.operation, target ?? this.#sameName(property)];
    if (path === undefined) {
      this.#problems.push(`${property} is mapped to no parameter of ${operation}`);
      return;
    }
    const [model, input] = this.#inputOf(operation);
    const parameters = this.#parameters.get(operation) ?? {};
    this.#parameters.set(operation, parameters);
    if (path !== "") this.#put(model, input, parameters, path.split("."), value, property);
    else if (isObject(value)) Object.assign(parameters, this.#structure(model, input, value, property));
  }

  #targetOf(property: string): Target | undefined {
    return this.#row.properties?.[property] ?? EVERYWHERE[property];
  }

  #inputOf(operation: string): readonly [ServiceModel, Shape] {
    const [service = "", name = ""] = operation.split(":");
    const model = this.#models.service(service);
    return [model, model.input(name)];
  }

  /** The parameter of the same name, below the row's `base`. */
  #sameName(property: string): string | undefined {
    const { operation, base } = this.#row;
    const [model, input] = this.#inputOf(operation);
    const shape = base === undefined ? input : model.shape(input.members?.[base]?.shape ?? "");
    const member = memberOf(shape, property);
    return member === undefined || base === undefined ? member : `${base}.${member}`;
  }

  /**
   * Puts a value at a path: `Name[]` is a list's only element, `Name[*]` stands for one element for each of the
   * value's.
   */
  #put(
    model: ServiceModel,
    shape: Shape,
    into: Record<string, unknown>,
    [step = "", ...rest]: readonly string[],
    value: unknown,
    property: string,
  ): void {
    const name = step.replace(/\[\*?\]$/, "");
    const isElement = name !== step;
    const member = shape.members?.[name];
    if (member === undefined) throw new Error(`The row of ${property} names ${name}, which is no parameter.`);
    const inner = model.shape(member.shape);
    const element = isElement ? model.shape(inner.member?.shape ?? "") : inner;
    if (step.endsWith("[*]")) {
      into[name] = (Array.isArray(value) ? value : [value]).map((one) => {
        const holder = {};
        this.#put(model, element, holder, rest, one, property);
        return holder;
      });
      return;
    }
    if (rest.length === 0) {
      const converted = this.#convert(model, element, value, property);
      into[name] = mergedWith(into[name], isElement ? [converted] : converted);
      return;
    }
    const holder = (isElement ? (into[name] as unknown[] | undefined)?.[0] : into[name]) ?? {};
    into[name] = isElement ? [holder] : holder;
    this.#put(model, element, holder as Record<string, unknown>, rest, value, property);
  }

  /** A value of a property in the form that the API has for it. */
  #convert(model: ServiceModel, shape: Shape, value: unknown, property: string): unknown {
    if (isHidden(value)) return value;
    switch (shape.type) {
      case "structure": {
        // The provider has lists of one where AWS has a structure.
        const one = Array.isArray(value) && value.length === 1 ? value[0] : value;
        return isObject(one) ? this.#structure(model, shape, one, property) : one;
      }
      case "list": {
        const member = model.shape(shape.member?.shape ?? "");
        const elements = Array.isArray(value) ? value : (pairsOf(member, value) ?? [value]);
        return elements.map((element) => this.#convert(model, member, element, property));
      }
      case "map": {
        const inner = model.shape(shape.value?.shape ?? "");
        const entries = Array.isArray(value) ? value.map(namedValues) : Object.entries(value as object);
        return Object.fromEntries(
          entries.map(([key, one]) => [key, this.#convert(model, inner, one, `${property}.*`)]),
        );
      }
      case "boolean":
        // The provider has some booleans as text, to tell `false` from an absent value.
        return value === "true" || value === "false" ? value === "true" : value;
      default:
        return value;
    }
  }

  #structure(
    model: ServiceModel,
    shape: Shape,
    value: Readonly<Record<string, unknown>>,
    property: string,
  ): Record<string, unknown> {
    const structure: Record<string, unknown> = {};
    for (const [key, inner] of Object.entries(value)) {
      const below = `${property}.${key}`;
      const target = this.#row.properties?.[below];
      if (inner === undefined || (typeof target === "object" && "own" in target)) continue;
      const path = typeof target === "string" ? target : memberOf(shape, key);
      if (path === undefined)
        this.#problems.push(`${below} is mapped to no parameter of ${this.#row.operation}`);
      else this.#put(model, shape, structure, path.split("."), inner, below);
    }
    return structure;
  }

  #check(operation: string, parameters: Record<string, unknown>): void {
    const [model, input] = this.#inputOf(operation);
    const { filled = [], allowed = {}, longest = {} } = this.#row;
    // The provider itself fills the required parameters of further calls.
    const isFilled = (path: string) =>
      filled.includes(path) || (operation !== this.#row.operation && !path.includes("."));
    const found = model.problems(input, parameters, "", isFilled);
    this.#problems.push(...found.map((problem) => `${operation}: ${problem}`));
    const visible = (path: string) => valuesAt(parameters, path.split(".")).filter((one) => !isHidden(one));
    for (const [path, values] of Object.entries(allowed)) {
      const taken = typeof values === "string" ? this.#valuesOf(values) : values;
      const wrong = visible(path).filter((one) => !taken.includes(one as string));
      this.#problems.push(
        ...wrong.map((one) => `${operation}: ${path} is ${JSON.stringify(one)}, which does not exist`),
      );
    }
    for (const [path, characters] of Object.entries(longest)) {
      const wrong = visible(path).filter((one) => typeof one === "string" && one.length > characters);
      this.#problems.push(
        ...wrong.map(
          (one) => `${operation}: ${path} is ${one}, and AWS takes ${characters} characters at most`,
        ),
      );
    }
  }

  #valuesOf(shape: string): readonly string[] {
    const [service = "", name = ""] = shape.split(":");
    return this.#models.values(service, name);
  }
}

/** Name of a structure's member that equals the property's, ignoring case. */
function memberOf(shape: Shape, property: string): string | undefined {
  const names = Object.keys(shape.members ?? {});
  return names.find((name) => name.toLowerCase() === property.toLowerCase());
}

/** Tags and similar values: AWS has a list of pairs where the provider has a map. */
function pairsOf(member: Shape, value: unknown): readonly unknown[] | undefined {
  const names = Object.keys(member.members ?? {});
  const [key, text] = [names.find((one) => /key$/i.test(one)), names.find((one) => /value$/i.test(one))];
  if (names.length !== 2 || key === undefined || text === undefined || !isObject(value)) return undefined;
  return Object.entries(value).map(([name, one]) => ({ [key]: name, [text]: one }));
}

/** The other way round, of cost filters: the provider has a list where AWS has a map. */
function namedValues(pair: unknown): [string, unknown] {
  const { name, values } = pair as { readonly name: string; readonly values: unknown };
  return [name, values];
}

function mergedWith(before: unknown, value: unknown): unknown {
  if (isObject(before) && isObject(value)) return { ...before, ...value };
  if (Array.isArray(before) && Array.isArray(value)) return [mergedWith(before[0], value[0])];
  return value;
}

function valuesAt(value: unknown, [step, ...rest]: readonly string[]): readonly unknown[] {
  if (Array.isArray(value))
    return value.flatMap((one) => valuesAt(one, step === undefined ? [] : [step, ...rest]));
  if (step === undefined) return value === undefined ? [] : [value];
  return isObject(value) ? valuesAt(value[step], rest) : [];
}
