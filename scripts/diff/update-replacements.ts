/**
 * Renews the lists of a bridged provider (aws, docker) in scripts/diff/replacements/ from its schema, for the types that they have:
 *
 *     pulumi package get-schema aws > aws.json
 *     npx tsx scripts/diff/update-replacements.ts --schema aws.json
 *
 * Comments stay: the first says where the lists are from. The same schema gives the same bytes.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { isMap, parseDocument } from "yaml";
import { UserError } from "../errors.ts";

interface Property {
  readonly $ref?: string;
  readonly items?: { readonly $ref?: string };
  readonly replaceOnChanges?: boolean;
  readonly willReplaceOnChanges?: boolean;
}
type Properties = Readonly<Record<string, Property>>;

/** Part of a package's schema that is read: https://www.pulumi.com/docs/iac/extending-pulumi/schema/ */
interface Schema {
  readonly name: string;
  readonly types: Readonly<Record<string, { readonly properties?: Properties }>>;
  readonly resources: Readonly<Record<string, { readonly inputProperties?: Properties }>>;
}

interface Lists {
  readonly replaces: readonly string[];
  readonly updates: readonly string[];
}

/** Paths of a resource's inputs by the effect of changing them; a part with like properties is one path. */
export function listsOf(schema: Schema, inputs: Properties, parents: readonly string[] = []): Lists {
  const lists = Object.entries(inputs)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { $ref, items, replaceOnChanges, willReplaceOnChanges }]): Lists => {
      if (replaceOnChanges || willReplaceOnChanges) return { replaces: [name], updates: [] };
      const type = decodeURIComponent(($ref ?? items?.$ref ?? "").replace(/^#\/types\//, ""));
      // A type may have itself as a part, as the statements of a firewall do.
      const inner = parents.includes(type) ? undefined : schema.types[type]?.properties;
      const below = inner === undefined ? undefined : listsOf(schema, inner, [...parents, type]);
      if (below === undefined || below.replaces.length === 0) return { replaces: [], updates: [name] };
      const at = (path: string) => `${name}.${path}`;
      return { replaces: below.replaces.map(at), updates: below.updates.map(at) };
    });
  return {
    replaces: lists.flatMap(({ replaces }) => replaces),
    updates: lists.flatMap(({ updates }) => updates),
  };
}

/** @throws UserError if the schema has no such type: it is of another version. */
export function renewed(text: string, schema: Schema): string {
  const document = parseDocument(text);
  const types = isMap(document.contents) ? document.contents.items.map(({ key }) => String(key)) : [];
  const { every = {} } = document.toJS() as Readonly<Record<string, Readonly<Record<string, string>>>>;
  const common = Object.values(every).flatMap((paths) => paths.split(" "));
  for (const type of types.filter((name) => name.startsWith(`${schema.name}:`))) {
    const resource = schema.resources[type];
    if (resource === undefined) throw new UserError(`The schema has no ${type}; is it of another version?`);
    const lists = Object.entries(listsOf(schema, resource.inputProperties ?? {})).flatMap(([list, paths]) => {
      const own = paths.filter((path: string) => !common.includes(path));
      return own.length === 0 ? [] : [[list, own.join(" ")]];
    });
    document.set(type, document.createNode(Object.fromEntries(lists)));
  }
  return document.toString({ lineWidth: 130 });
}

function main(argv: string[]): void {
  const { schema: file } = parseArgs({ args: argv, options: { schema: { type: "string" } } }).values;
  if (file === undefined) throw new UserError("Missing --schema FILE, from `pulumi package get-schema aws`.");
  const schema = JSON.parse(readFileSync(file, "utf8")) as Schema;
  const path = fileURLToPath(new URL(`replacements/${schema.name}.yaml`, import.meta.url));
  writeFileSync(path, renewed(readFileSync(path, "utf8"), schema));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main(process.argv.slice(2));
