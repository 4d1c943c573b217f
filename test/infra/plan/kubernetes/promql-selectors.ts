/** The series that an expression of PromQL reads. promtool checks its syntax. */

export interface Selector {
  readonly metric: string;
  readonly matchers: readonly {
    readonly label: string;
    readonly operator: "=" | "!=" | "=~" | "!~";
    readonly value: string;
  }[];
}

const STRING = String.raw`"(?:[^"\\]|\\.)*"`;
const SELECTOR = new RegExp(String.raw`\b([a-zA-Z_:]\w*)\{((?:[^"{}]|${STRING})*)\}`, "g");
const MATCHER = new RegExp(String.raw`(\w+)\s*(=~|!~|!=|=)\s*(${STRING})`, "g");
/** Labels that something is grouped or matched by. */
const LABELS = /\b(?:by|without|on|ignoring)\s*\([^)]*\)/g;
/** Words that are neither functions nor keywords: metrics without braces. */
const BARE = /\b(?!(?:and|or|unless|offset)\b)[a-zA-Z_:]\w*\b(?!\s*\()/;

/**
 * Selectors of an expression, in its order.
 *
 * @throws Error if a metric has no braces, and so no labels.
 */
export function selectors(expression: string): readonly Selector[] {
  const bare = BARE.exec(expression.replace(SELECTOR, "").replace(LABELS, ""))?.[0];
  if (bare !== undefined) throw new Error(`${expression} has ${bare} without labels.`);
  return [...expression.matchAll(SELECTOR)].map(([, metric = "", text = ""]) => ({
    metric,
    matchers: [...text.matchAll(MATCHER)].map(([, label = "", operator, value = ""]) => ({
      label,
      operator: operator as Selector["matchers"][number]["operator"],
      value: JSON.parse(value) as string,
    })),
  }));
}
