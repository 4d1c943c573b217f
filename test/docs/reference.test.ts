/** docs/reference/ against the commands' help, the outputs' types and the gateway's metrics. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { gatewayMetrics, retrievalMetrics } from "../../containers/services/gateway/src/metrics.ts";
import type { StackOutputs } from "../../infra/outputs.ts";
import type { CostPlan } from "../../infra/plan/cost/types.ts";
import type { Endpoints, ModelEndpoints, ServedModel } from "../../infra/plan/endpoints.ts";
import { describe } from "../../scripts/commands/command.ts";
import { COMMANDS } from "../../scripts/commands/index.ts";
import { rootParser } from "../../scripts/commands/main.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { expectPart } from "../harness/recorded-part.ts";

const TEST = "test/docs/reference.test.ts";

const OUTPUTS = "docs/reference/outputs.md";

/** Options of most commands, which the page lists once. */
const COMMON = ["--help", "--stack", "--config-file"];

const oneLine = (text: string) => text.replaceAll(/\s+/g, " ").trim();

/** Without the tasks of workflows, which people do not type. */
async function commandLines(): Promise<readonly string[]> {
  const root = rootParser();
  const lines: string[] = [];
  let heading = "";
  for (const [name, { group, load }] of Object.entries(COMMANDS)) {
    const parser = root.commands.find((command) => command.name() === name);
    if (parser === undefined || name === "ci") continue;
    const command = await load();
    describe(parser, command, async () => {});
    if (group !== heading) lines.push("", `## ${group.replace(/:$/, "")}`);
    heading = group;
    const words = parser.usage().replace("[options] ", "").replace("[options]", "");
    lines.push("", `### \`${`${name} ${words}`.trim()}\``, "", `${oneLine(parser.description())}`, "");
    const help = parser.createHelp();
    for (const option of help.visibleOptions(parser))
      if (!COMMON.includes(option.long ?? ""))
        lines.push(`- \`${option.flags}\`: ${oneLine(help.optionDescription(option))}`);
    for (const note of command.notes ?? []) lines.push("", oneLine(note));
  }
  return lines.slice(1).filter((line, index, all) => line !== "" || all[index - 1] !== "");
}

test("docs/reference/commands.md has every command with the options of its help", async () => {
  expectPart("docs/reference/commands.md", "commands", await commandLines(), TEST);
});

/** Keys by the name that they have in the page; the compiler holds each list to its type. */
const OUTPUT_KEYS: Readonly<Record<string, Readonly<Record<string, true>>>> = {
  "": {
    endpoints: true,
    models: true,
    release: true,
    engineStore: true,
    cost: true,
    notes: true,
  } satisfies Record<keyof StackOutputs, true>,
  "endpoints.": {
    gateway: true,
    gatewayReach: true,
    gatewayDnsName: true,
    mongo: true,
    vector: true,
    encoders: true,
    models: true,
    reach: true,
  } satisfies Record<keyof Endpoints, true>,
  "endpoints.models.NAME.": { http: true, grpc: true, metrics: true, generate: true } satisfies Record<
    keyof ModelEndpoints,
    true
  >,
  "models[].": { name: true, model: true, release: true, engineKey: true, nodePool: true } satisfies Record<
    keyof ServedModel,
    true
  >,
  "cost.": {
    hourlyUsd: true,
    monthlyUsd: true,
    withoutPrice: true,
    buildUsd: true,
    pricesAsOf: true,
  } satisfies Record<keyof CostPlan, true>,
};

test("docs/reference/outputs.md has a row for every key of the outputs", () => {
  const page = readFileSync(join(projectRoot, OUTPUTS), "utf8");
  const keys = Object.entries(OUTPUT_KEYS).flatMap(([prefix, names]) =>
    Object.keys(names).map((name) => `${prefix}${name}`),
  );
  expect([...page.matchAll(/^\| `([^`]+)` \| .{10,} \|$/gm)].map(([, key]) => key)).toEqual(
    expect.arrayContaining(keys),
  );
});

test("docs/reference/outputs.md has every metric of the gateway", () => {
  const { registry } = gatewayMetrics({
    limiter: { taken: 0, waiting: 0 },
    memory: { bytes: 0 },
    pending: () => [],
    inFlight: () => 0,
  } as unknown as Parameters<typeof gatewayMetrics>[0]);
  retrievalMetrics(registry);
  const rows = registry
    .getMetricsAsArray()
    .filter(({ name }) => name.startsWith("gateway_"))
    .map(({ name, help }) => `| \`${name}\` | ${help} |`);
  expect(rows.length).toBeGreaterThan(10);
  expectPart(OUTPUTS, "metrics", ["| Metric | What |", "|---|---|", ...rows], TEST);
});

test("docs/reference/outputs.md has every type of error of the gateway with its status", () => {
  const source = readFileSync(join(projectRoot, "containers/services/gateway/src/errors.ts"), "utf8");
  const [, table = ""] = /^const TYPES\b[^{]*\{([^}]*)\}/m.exec(source) ?? [];
  const types = [...table.matchAll(/(\d{3}): "(\w+)"/g)].map(
    ([, status, type]) => `| ${status} | \`${type}\` |`,
  );
  const page = readFileSync(join(projectRoot, OUTPUTS), "utf8");
  expect(types.length).toBeGreaterThan(5);
  expect(types.filter((row) => !page.includes(row))).toEqual([]);
});
