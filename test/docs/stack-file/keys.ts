/** Every key that a stack file may have, from the schemas that parse it. */
import type { z } from "zod";
import { secret } from "../../../infra/config/common.ts";
import type { SchemaType } from "./comments.ts";
import { defaultWords, literalWords, MAPPING, valueWords } from "./value-descriptions.ts";

export interface Key {
  /** `pools[].nodes.min`, `catalogue.models.NAME.title` */
  readonly path: string;
  /** Forms of its mapping that have it, such as `mode: mig`; empty: all have. */
  readonly forms: readonly string[];
  /** Allowed values, in Markdown. */
  readonly value: string;
  /** In Markdown; empty when it may be absent without a default. */
  readonly default: string;
  readonly sentence: string;
}

/** A schema with its comments and its path. */
interface Place {
  readonly schema: z.core.$ZodType;
  readonly type: SchemaType;
  readonly path: string;
  readonly forms: readonly string[];
}

const REQUIRED = "required";

/** @param type - Type of `schema`. */
export function keysOf(schema: z.core.$ZodType, type: SchemaType): readonly Key[] {
  return below({ schema, type, path: "", forms: [] });
}

function below(place: Place): readonly Key[] {
  const { schema, type, path } = place;
  if (schema === secret) return [];
  const { def } = (schema as z.core.$ZodTypes)._zod;
  const at = (inner: z.core.$ZodType, part: "innerType" | "element" | "valueType", suffix = "") =>
    below({ ...place, schema: inner, type: type.inner(part), path: `${path}${suffix}` });
  switch (def.type) {
    case "optional":
    case "nullable":
    case "default":
    case "prefault":
      return at(def.innerType, "innerType");
    case "array":
      return at(def.element, "element", "[]");
    case "record":
      return at(def.valueType, "valueType", ".NAME");
    case "object":
      return Object.entries(def.shape).flatMap(([name, key]) => keysAt(place, name, key));
    case "union":
      return "discriminator" in def
        ? formsOf(place, def.options, String(def.discriminator))
        : def.options.flatMap((option, index) =>
            below({ ...place, schema: option, type: type.option(index) }),
          );
    default:
      return [];
  }
}

/** A key of a mapping, and those below it. */
function keysAt({ type, path, forms }: Place, name: string, schema: z.core.$ZodType): readonly Key[] {
  const { sentence, type: own } = type.key(name);
  const place = { schema, type: own, path: path === "" ? name : `${path}.${name}`, forms };
  const inner = below(place);
  const isRequired = schema._zod.optin === undefined;
  const key: Key = {
    path: place.path,
    forms,
    value: valueWords(schema),
    default: isRequired ? REQUIRED : defaultWords(schema),
    sentence,
  };
  // The paths of its keys show a mapping without a sentence and a default.
  const isSilent = key.value === MAPPING && key.default === "" && sentence === "";
  return isSilent ? inner : [key, ...inner];
}

/** Keys of a mapping that has several forms; equal keys of forms are listed once. */
function formsOf(
  { type, path }: Place,
  options: readonly z.core.$ZodType[],
  discriminator: string,
): readonly Key[] {
  const names = options.map((option) => {
    const { def } = (option as z.core.$ZodTypes)._zod;
    return def.type === "object" ? [...(def.shape[discriminator]?._zod.values ?? [])] : [];
  });
  const keys = options
    .flatMap((option, index) =>
      below({
        schema: option,
        type: type.option(index),
        path,
        forms: (names[index] ?? []).map((name) => `${discriminator}: ${String(name)}`),
      }),
    )
    .filter((key) => key.path !== `${path}.${discriminator}`);
  const first: Key = {
    path: `${path}.${discriminator}`,
    forms: [],
    value: literalWords(names.flat()),
    default: REQUIRED,
    sentence: type.option(0).key(discriminator).sentence,
  };
  return [first, ...joinedForms(keys)];
}

function joinedForms(keys: readonly Key[]): readonly Key[] {
  const byContent = new Map<string, Key>();
  for (const key of keys) {
    const content = JSON.stringify({ ...key, forms: [] });
    byContent.set(content, { ...key, forms: [...(byContent.get(content)?.forms ?? []), ...key.forms] });
  }
  return [...byContent.values()];
}
