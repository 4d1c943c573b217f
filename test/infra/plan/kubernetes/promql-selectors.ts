/** What an expression of PromQL reads, by Prometheus' own grammar. */
import { parser } from "@prometheus-io/lezer-promql";

export interface Selector {
  readonly metric: string;
  readonly matchers: readonly {
    readonly label: string;
    readonly operator: "=" | "!=" | "=~" | "!~";
    readonly value: string;
  }[];
}

/**
 * Selectors of an expression, in its order.
 *
 * @throws Error where it is not PromQL.
 */
export function selectors(expression: string): readonly Selector[] {
  const tree = parser.parse(expression);
  const found: Selector[] = [];
  tree.iterate({
    enter({ type, from, to }) {
      if (type.isError)
        throw new Error(
          `${expression} is no PromQL at character ${from}: ${expression.slice(from, to + 10)}`,
        );
    },
  });
  tree.iterate({
    enter({ type, node }) {
      if (type.name !== "VectorSelector") return;
      const metric = node.getChild("Identifier");
      if (metric === null) throw new Error(`${expression} has a selector without a metric.`);
      const matchers = node.getChild("LabelMatchers")?.getChildren("UnquotedLabelMatcher") ?? [];
      found.push({
        metric: expression.slice(metric.from, metric.to),
        matchers: matchers.map((matcher) => {
          const [, label = "", operator, value = ""] =
            /^(\w+)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")$/.exec(expression.slice(matcher.from, matcher.to)) ??
            [];
          return {
            label,
            operator: operator as Selector["matchers"][number]["operator"],
            value: JSON.parse(value) as string,
          };
        }),
      });
    },
  });
  return found;
}
