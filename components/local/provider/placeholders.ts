/** `{port.NAME}` and `{root}` in what a process is given; anything else in braces is left as it is. */

const PLACEHOLDER = /\{(?:port\.([A-Za-z0-9_-]+)|root)\}/g;

interface PlaceholderValues {
  readonly ports: Readonly<Record<string, number>>;
  /** Absolute. */
  readonly root: string;
}

export function fillPlaceholders(text: string, values: PlaceholderValues): string {
  return text.replace(PLACEHOLDER, (placeholder, port: string | undefined) =>
    port === undefined ? values.root : String(values.ports[port] ?? placeholder),
  );
}

/** Names of ports that a text asks for. */
export function portsIn(text: string): string[] {
  return [...text.matchAll(PLACEHOLDER)].flatMap((match) => (match[1] === undefined ? [] : [match[1]]));
}
