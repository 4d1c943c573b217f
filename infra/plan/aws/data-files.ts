/** Data files of this folder, and placeholders `${name}` in them and in plans. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";

/** Variables of IAM's policies have a colon, `${aws:PrincipalTag/…}`, and are not placeholders. */
const PLACEHOLDER = /\$\{([A-Za-z]\w*)\}/g;

/** Placeholder of a value that is known only once a resource exists. */
export function placeholder(name: string): string {
  return `\${${name}}`;
}

const texts = new Map<string, string>();
const documents = new Map<string, unknown>();

/** Text of a file, read once. @param name - Path in this folder: `machine/task.sh`. */
export function fileText(name: string): string {
  return once(texts, name, () => readFileSync(new URL(name, import.meta.url), "utf8"));
}

/** Content of a YAML file, parsed once, with its placeholders. */
export function fileContent<T>(name: string): T {
  return once(documents, name, () => parse(fileText(name))) as T;
}

function once<T>(known: Map<string, T>, key: string, make: () => T): T {
  const value = known.get(key) ?? make();
  known.set(key, value);
  return value;
}

/** JSON of a document of documents.yaml with values of its placeholders. @param indent - Spaces; absent: all in one line. */
export function documentText(
  name: "fileSystemPolicy" | "kubeconfig" | "lifecyclePolicy" | "nodeConfig" | "stateBucketPolicy",
  values: Readonly<Record<string, unknown>>,
  indent?: number,
): string {
  const documents = fileContent<Readonly<Record<string, object>>>("documents.yaml");
  return JSON.stringify(filled(documents[name], values), null, indent);
}

/**
 * A template with values of its placeholders. A text that is nothing but a placeholder takes a value of any type; undefined leaves
 * its key out.
 *
 * @throws Error if a placeholder has no value.
 */
export function filled<T>(template: T, values: Readonly<Record<string, unknown>>): T;
export function filled(template: unknown, values: Readonly<Record<string, unknown>>): unknown {
  if (typeof template === "string") {
    const [whole] = template.matchAll(PLACEHOLDER);
    if (whole?.[0] === template) return placed(whole[1] as string);
    return template.replace(PLACEHOLDER, (_, name: string) => {
      const value = placed(name);
      if (value === undefined) throw new Error(`${name} is undefined in ${template}`);
      return String(value);
    });
  }
  if (Array.isArray(template)) return template.map((item) => filled(item, values));
  if (typeof template !== "object" || template === null) return template;
  return Object.fromEntries(
    Object.entries(template)
      .map(([key, value]) => [filled(key, values), filled(value, values)])
      .filter(([, value]) => value !== undefined),
  );

  function placed(name: string): unknown {
    if (!(name in values)) throw new Error(`No value was given for ${name} in ${template}`);
    return values[name];
  }
}
