/** The hosts from which images may be fetched: `gateway.imageHosts`. */
import { isIP } from "node:net";
import { domainToASCII } from "node:url";

interface HostRule {
  /** In lower case and punycode. */
  readonly name: string;
  /** Whether names below `name` are meant, and not `name` itself. */
  readonly isSuffix: boolean;
  /** Absent: the scheme's own. */
  readonly port?: number;
}

/** What an entry may look like, for messages. */
const EXAMPLES = "images.example.org, *.example.org or images.example.org:8443";

/** One rule a line; none allows nothing. */
export class ImageHosts {
  readonly #rules: readonly HostRule[];

  /** @param entries - `name`, `*.name` (any name below, not the name itself), each with or without `:port`. @throws Error for another form. */
  constructor(entries: readonly string[]) {
    this.#rules = entries.map((entry) => {
      const rule = parseRule(entry);
      if (typeof rule === "string") throw new Error(`${JSON.stringify(entry)} ${rule}`);
      return rule;
    });
  }

  /** Whether an http or https URL's host and port are allowed: ports 80 and 443, or the one that the entry names. */
  allows(url: URL): boolean {
    const { hostname } = url;
    return this.#rules.some(
      (rule) =>
        (rule.isSuffix ? hostname.endsWith(`.${rule.name}`) : hostname === rule.name) &&
        portOf(url) === (rule.port ?? SCHEME_PORTS[url.protocol]),
    );
  }
}

const SCHEME_PORTS: Readonly<Record<string, number>> = { "http:": 80, "https:": 443 };

/** The port that a URL leads to; undefined for a scheme other than http and https. */
export function portOf({ protocol, port }: URL): number | undefined {
  return port === "" ? SCHEME_PORTS[protocol] : Number(port);
}

/** What is wrong with an entry of the configuration, as the end of a sentence; undefined when nothing is. */
export function imageHostProblem(entry: string): string | undefined {
  const rule = parseRule(entry);
  return typeof rule === "string" ? rule : undefined;
}

/** Names of at least two labels: what has one label is a machine of the local network, and those are never fetched from. */
const DNS_NAME =
  /^(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

function parseRule(entry: string): HostRule | string {
  const [, star, host = "", port] = /^(\*\.)?([^:/?#@*\s]+)(?::(\d{1,5}))?$/.exec(entry) ?? [];
  const name = domainToASCII(host);
  if (isIP(name) !== 0) return `is an address, and only names are taken, such as ${EXAMPLES}`;
  if (!DNS_NAME.test(name) || /(?:^|\.)localhost$/.test(name)) {
    return `is no name of a public host; write it like ${EXAMPLES}`;
  }
  if (port === undefined) return { name, isSuffix: star !== undefined };
  if (Number(port) < 1 || Number(port) > 65_535) return `has port ${port}, and ports are 1 to 65535`;
  return { name, isSuffix: star !== undefined, port: Number(port) };
}
