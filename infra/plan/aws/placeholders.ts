/** Texts of a plan with values that are known only when something is made: `${vpcId}`. Pure. */

/** A policy's own variables have a colon, `${aws:PrincipalTag/…}`, and stay as they are. */
const PLACEHOLDER = /\$\{([A-Za-z]\w*)\}/g;

/** In a plan: the value of that name, or, with a colon, a variable of IAM's own. */
export function placeholder(name: string): string {
  return `\${${name}}`;
}

/**
 * Before anything is made of texts: none of them may be left as it is.
 *
 * @param value - Anything that JSON has.
 * @param given - By name.
 * @throws Error which names the values that are not given.
 */
export function requireValues(value: unknown, given: Readonly<Record<string, unknown>>): void {
  const missing = placeholderNames(value).filter((name) => given[name] === undefined);
  if (missing.length > 0) throw new Error(`No value was given for ${missing.join(", ")}`);
}

/** Names of the values that texts refer to, sorted. @param value - Anything that JSON has. */
export function placeholderNames(value: unknown): readonly string[] {
  const names = [...JSON.stringify(value).matchAll(PLACEHOLDER)].map(([, name = ""]) => name);
  return [...new Set(names)].sort();
}

/** @throws Error where a value is not given. */
export function filledText(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(PLACEHOLDER, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`No value was given for ${name} in ${text}`);
    return value;
  });
}

/** The same mapping or list with each text of it replaced; names of its members stay. */
export function mapTexts(value: unknown, map: (text: string) => unknown): unknown {
  if (typeof value === "string") return map(value);
  if (Array.isArray(value)) return value.map((one) => mapTexts(one, map));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, mapTexts(one, map)]));
}
