/** JSON Schema of the stack file for editors: from the schemas that parse it, with the sentences of docs/stack-file/. */
import { z } from "zod";
import { KIND_KEYS, stackKinds } from "../../../infra/config/config.ts";
import { GPU_NAMES } from "../../../infra/plan/catalogue/gpus.ts";
import { LANGUAGE_MODELS } from "../../../infra/plan/catalogue/language-models.ts";
import { machineTypes } from "../../../infra/plan/catalogue/machines.ts";
import { RELEASE_TAGS } from "../../../infra/plan/catalogue/releases.ts";
import { CONFIG_NAMESPACE } from "../../../infra/problems.ts";
import type { Key } from "./keys.ts";
import { describedKinds } from "./reference.ts";

/** The parts of JSON Schema that are read or written here. */
interface Node {
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly examples?: readonly unknown[];
  readonly description?: string;
  readonly pattern?: string;
  readonly maximum?: number;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Node>>;
  readonly patternProperties?: Readonly<Record<string, Node>>;
  readonly additionalProperties?: Node | boolean;
  readonly items?: Node;
  readonly anyOf?: readonly Node[];
  readonly oneOf?: readonly Node[];
  readonly allOf?: readonly Node[];
  readonly if?: Node;
  readonly else?: Node;
  readonly $ref?: string;
  readonly $schema?: string;
}

const KIND_SENTENCES = {
  platform: "Where the stack runs.",
  tier: "`gpu`: TensorRT-LLM on GPUs. `cpu`: small models on CPUs.",
  compute: "What computes on AWS: `eks` is a cluster, `ec2` is one machine.",
} as const satisfies Record<(typeof KIND_KEYS)[number], string>;

/** Values that an editor suggests for keys that accept other texts too. */
const EXAMPLES: readonly (readonly [RegExp, readonly string[]])[] = [
  [/^models\[\]\.model$/, LANGUAGE_MODELS],
  [/(^|\.|\])instanceType$/, Object.keys(machineTypes)],
  [/machine\.gpu$/, GPU_NAMES],
  [/^release$/, RELEASE_TAGS],
];

/** Keys of providers, of the CLI and of the user. */
const OTHER_NAMESPACES = `^(?!${CONFIG_NAMESPACE}:)[^:]+:.+$`;

/** Keys of the file beside `config`: https://www.pulumi.com/docs/iac/concepts/projects/stack-settings-file/ */
const FILE_KEYS: Readonly<Record<string, Node>> = {
  secretsprovider: { type: "string", description: "How the Pulumi CLI encrypts the secrets of this file." },
  encryptionsalt: { type: "string", description: "Salt of the passphrase; the Pulumi CLI writes it." },
  encryptedkey: { type: "string", description: "Key of the secrets, encrypted; the Pulumi CLI writes it." },
  environment: {
    type: ["array", "object"],
    description: "Environments of Pulumi ESC, which the Pulumi CLI alone applies.",
  },
};

/** @returns The file's text. Takes seconds: the compiler reads the sources for the sentences. */
export function stackFileSchema(): string {
  const definitions: Record<string, Node> = {};
  for (const { name, schema, keys } of describedKinds()) {
    const share = (key: string, node: Node) => shared(definitions, key, node);
    const { properties = {}, required = [] } = described(inputSchema(schema), "", { keys, share });
    definitions[kindDefinition(name)] = {
      properties: mapEntries(properties, (value, key) => [prefixed(key), value]),
      patternProperties: { [OTHER_NAMESPACES]: {} },
      additionalProperties: false,
      required: required.map(prefixed),
    };
  }
  const properties = { config: configNode(), ...FILE_KEYS };
  return `${JSON.stringify(
    {
      $schema: "http://json-schema.org/draft-07/schema#",
      title: "Stack file of Engine Room",
      type: "object",
      ...{ properties, additionalProperties: false, definitions },
    },
    null,
    1,
  )}\n`;
}

const prefixed = (key: string) => `${CONFIG_NAMESPACE}:${key}`;

const kindDefinition = (name: string) => `stack-${name}`;

const referTo = (name: string): Node => ({ $ref: `#/definitions/${name}` });

function mapEntries<Value>(
  record: Readonly<Record<string, Value>>,
  map: (value: Value, key: string) => readonly [string, Value],
): Record<string, Value> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => map(value, key)));
}

function inputSchema(schema: z.ZodType): Node {
  const { $schema: _, ...node } = z.toJSONSchema(schema, { io: "input", target: "draft-7" }) as Node;
  return node;
}

/** The keys that choose the kind, and by them the keys of the kind. */
function configNode(): Node {
  const kinds = describedKinds();
  const valuesOf = (key: (typeof KIND_KEYS)[number]) => [
    ...new Set(stackKinds.flatMap(({ kind }) => (kind as Readonly<Record<string, string>>)[key] ?? [])),
  ];
  const condition = (kind: Readonly<Record<string, string>>): Node => ({
    properties: mapEntries(kind as Readonly<Record<string, unknown>>, (value, key) => [
      prefixed(key),
      { const: value },
    ]) as Record<string, Node>,
    required: Object.keys(kind).map(prefixed),
  });
  const choice = (test: Node, consequence: Node, otherwise?: Node): Node => ({
    if: test,
    // biome-ignore lint/suspicious/noThenProperty: JSON Schema calls it so
    ...{ then: consequence },
    ...(otherwise === undefined ? {} : { else: otherwise }),
  });
  return {
    type: "object",
    description: `Configuration of the stack. Keys of Engine Room begin with \`${prefixed("")}\`.`,
    properties: Object.fromEntries(
      KIND_KEYS.map((key) => [prefixed(key), { enum: valuesOf(key), description: KIND_SENTENCES[key] }]),
    ),
    required: [prefixed("platform")],
    allOf: valuesOf("platform").map((platform) => {
      const [first, second] = kinds.filter(({ kind }) => kind.platform === platform);
      if (first === undefined) throw new Error(`No kind of stack has the platform ${platform}.`);
      const otherwise = referTo(kindDefinition(first.name));
      if (second === undefined) return choice(condition({ platform }), otherwise);
      const said = Object.entries(second.kind).filter(
        ([key, value]) => value !== (first.kind as Readonly<Record<string, string>>)[key],
      );
      const named = referTo(kindDefinition(second.name));
      return choice(condition({ platform }), choice(condition(Object.fromEntries(said)), named, otherwise));
    }),
  };
}

/** Writes a value of several places once: `weights`, or `limits-2` when another value has the name `limits`. */
function shared(definitions: Record<string, Node>, key: string, node: Node): Node {
  const text = JSON.stringify(node);
  if (text.length < 300) return node;
  const known = Object.keys(definitions).find((name) => JSON.stringify(definitions[name]) === text);
  if (known !== undefined) return referTo(known);
  const same = Object.keys(definitions).filter((name) => name.replace(/-\d+$/, "") === key);
  const name = same.length === 0 ? key : `${key}-${same.length + 1}`;
  definitions[name] = node;
  return referTo(name);
}

/** `pulumi config set` without `--path` writes every value as text. */
function textToo(node: Node): Node {
  if (node.anyOf !== undefined)
    return { ...node, anyOf: [...node.anyOf, { type: "string", pattern: "^\\s*\\{" }] };
  const pattern = { array: "^\\s*\\[", object: "^\\s*\\{", boolean: "^(true|false)$" }[String(node.type)];
  return pattern === undefined ? node : { ...node, type: [String(node.type), "string"], pattern };
}

interface Context {
  readonly keys: readonly Key[];
  /** Returns a key's value, or a reference to its definition. */
  readonly share: (key: string, node: Node) => Node;
}

/** Adds the keys' sentences and an editor's suggestions. @param path - As in docs/stack-file/. */
function described(node: Node, path: string, context: Context): Node {
  const { properties, items, anyOf, oneOf, additionalProperties, maximum, ...rest } = node;
  // A text that may be encrypted, as any text may.
  const [text, encrypted] = anyOf ?? [];
  if (encrypted?.properties?.secure !== undefined) return described({ ...rest, ...text }, path, context);
  const at = (inner: Node, suffix = "") => described(inner, `${path}${suffix}`, context);
  const examples = EXAMPLES.find(([form]) => form.test(path))?.[1];
  return {
    ...rest,
    ...(examples === undefined || node.enum !== undefined ? {} : { examples }),
    ...(maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? {} : { maximum }),
    ...(properties === undefined
      ? {}
      : {
          properties: mapEntries(properties, (inner, name) => {
            const inside = path === "" ? name : `${path}.${name}`;
            const description = sentenceOf(inside, node, context.keys);
            const own = described(inner, inside, context);
            const value = path === "" ? textToo(own) : own;
            return [name, context.share(name, description === "" ? value : { description, ...value })];
          }),
        }),
    ...(items === undefined ? {} : { items: at(items, "[]") }),
    ...(anyOf === undefined ? {} : { anyOf: anyOf.map((inner) => at(inner)) }),
    ...(oneOf === undefined ? {} : { oneOf: oneOf.map((inner) => at(inner)) }),
    ...(additionalProperties === undefined
      ? {}
      : {
          additionalProperties:
            typeof additionalProperties === "boolean"
              ? additionalProperties
              : at(additionalProperties, ".NAME"),
        }),
    ...(isFreeText(node) && examples === undefined ? SECURE_TOO : {}),
  };
}

/** Sentence of a key for this form of its mapping. */
function sentenceOf(path: string, { properties = {} }: Node, keys: readonly Key[]): string {
  const known = keys.filter((key) => key.path === path);
  const said = Object.entries(properties).flatMap(([name, value]) =>
    [value.const, ...(value.enum ?? [])].map((choice) => `${name}: ${String(choice)}`),
  );
  const own = known.find(({ forms }) => forms.some((form) => said.includes(form))) ?? known[0];
  return own?.sentence ?? "";
}

const isFreeText = (node: Node) =>
  node.type === "string" && node.enum === undefined && node.const === undefined;

/** The Pulumi CLI encrypts any value; the keywords for mappings do not apply to texts. */
const SECURE_TOO: Node = {
  type: ["string", "object"],
  properties: { secure: { type: "string" } },
  required: ["secure"],
  additionalProperties: false,
};
