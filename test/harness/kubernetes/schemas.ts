/**
 * Strict JSON Schemas (draft 4) of the API server's objects, from its own OpenAPI document and from definitions of
 * kinds: they forbid fields that a kind does not declare. They do not have the rules in CEL.
 */
import type { CustomResourceDefinition } from "./apply.ts";

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
type Schema = { readonly [key: string]: Json };

/** The part of `swagger.json` that has the kinds. */
export interface Swagger {
  readonly definitions: Readonly<Record<string, Schema>>;
}

/** Content by the name of a file, for {@link SCHEMA_LOCATION}. */
export type SchemaFiles = ReadonlyMap<string, Schema>;

/** Template of a schema's path for kubeconform, below the folder of the files. */
export const SCHEMA_LOCATION = "{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json";

const DEFINITIONS = "_definitions.json";
const DRAFT = "http://json-schema.org/draft-04/schema#";
const META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/** Types that the document describes as a string, or not at all, though more is accepted. */
const SPECIAL: readonly (readonly [suffix: RegExp, schema: Schema])[] = [
  [/\.api\.resource\.Quantity$/, { type: ["string", "number"] }],
  [/\.util\.intstr\.IntOrString$/, { type: ["string", "integer"] }],
  // Schemas within definitions of kinds.
  [/\.apiextensions\..*\.JSON(SchemaProps\w*)?$/, {}],
];

/** A file for each kind, and a file of shared definitions. */
export function schemasOfSwagger({ definitions }: Swagger): SchemaFiles {
  const shared: Record<string, Schema> = {};
  const files = new Map<string, Schema>();
  for (const [name, definition] of Object.entries(definitions)) {
    const special = SPECIAL.find(([suffix]) => suffix.test(name));
    const schema = special?.[1] ?? (strict(definition) as Schema);
    shared[name] = schema;
    const kinds = (definition["x-kubernetes-group-version-kind"] ?? []) as unknown as readonly Kind[];
    for (const kind of kinds) files.set(fileName(kind), ofKind(schema, kind));
  }
  files.set(DEFINITIONS, { definitions: shared });
  return files;
}

/** A file for each served version, for the same folder as those of {@link schemasOfSwagger}. */
export function schemasOfDefinition({ spec }: CustomResourceDefinition): SchemaFiles {
  const files = new Map<string, Schema>();
  for (const { name, served, schema } of spec.versions) {
    const whole = (schema as { readonly openAPIV3Schema?: Schema } | undefined)?.openAPIV3Schema;
    if (!served || whole === undefined) continue;
    const kind: Kind = { group: spec.group, version: name, kind: spec.names.kind };
    const { properties, ...rest } = strict(whole) as Schema;
    const metadata = { $ref: `${DEFINITIONS}#/definitions/${META}` };
    files.set(fileName(kind), ofKind({ ...rest, properties: { ...(properties as Schema), metadata } }, kind));
  }
  return files;
}

interface Kind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

function fileName({ group, version, kind }: Kind): string {
  // kubeconform takes the version of the core's kinds for their group.
  return `${group === "" ? version : group}_${version}_${kind.toLowerCase()}.json`;
}

/** The schema with the very names that the kind has. */
function ofKind(schema: Schema, { group, version, kind }: Kind): Schema {
  const apiVersion = group === "" ? version : `${group}/${version}`;
  return {
    $schema: DRAFT,
    ...schema,
    required: [...new Set([...((schema.required ?? []) as readonly string[]), "apiVersion", "kind"])],
    properties: {
      ...(schema.properties as Schema),
      apiVersion: { type: "string", enum: [apiVersion] },
      kind: { type: "string", enum: [kind] },
    },
  };
}

/** Converts OpenAPI's dialect, and forbids undeclared fields. */
function strict(value: Json): Json {
  if (Array.isArray(value)) return value.map(strict);
  if (typeof value !== "object" || value === null) return value;
  const schema = value as Schema;
  if (typeof schema.$ref === "string")
    return { $ref: `${DEFINITIONS}#/definitions/${schema.$ref.split("/").at(-1)}` };
  if (schema["x-kubernetes-int-or-string"] === true || schema.format === "int-or-string")
    return { type: ["string", "integer"] };
  const kept = Object.entries(schema).filter(
    ([key]) => !key.startsWith("x-kubernetes-") && key !== "nullable",
  );
  const copy = Object.fromEntries(
    kept.map(([key, inner]) => [key, key === "properties" ? ofEach(inner) : keyword(key, inner)]),
  );
  const isOpen = schema["x-kubernetes-preserve-unknown-fields"] === true;
  const closed =
    "properties" in schema && !("additionalProperties" in schema) && !isOpen
      ? { ...copy, additionalProperties: false }
      : copy;
  return schema.nullable === true && typeof schema.type === "string"
    ? { ...closed, type: [schema.type, "null"] }
    : closed;
}

/** Names of fields are not keywords, though some look alike. */
function ofEach(properties: Json | undefined): Json {
  const entries = Object.entries((properties ?? {}) as Schema);
  return Object.fromEntries(entries.map(([name, schema]) => [name, strict(schema)]));
}

/**
 * Converts a keyword's value. The contents of an object or a list have schemas, too. Alternatives (`oneOf` and the
 * like) add to fields declared elsewhere and must stay open; other values are not schemas.
 */
function keyword(name: string, value: Json): Json {
  return name === "items" || name === "additionalProperties" ? strict(value) : value;
}
