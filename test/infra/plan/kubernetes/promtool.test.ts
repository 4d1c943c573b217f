/** Rules and expressions of stacks, by Prometheus' own promtool: whether it takes them, and what fires over given series. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ruleGroups } from "../../../../components/kubernetes/monitoring.ts";
import { kubernetesStack } from "../../../../infra/plan/kubernetes/kubernetes-stack.ts";
import { ALERT_NAMES, type AlertPlan } from "../../../../infra/plan/kubernetes/monitoring/types.ts";
import { debianProgram } from "../../../harness/debian-program.ts";
import {
  FAULT_MINUTE,
  type Fired,
  faults,
  HEALTHY,
  LAST_MINUTE,
  NO_FAULTS,
  type Scene,
  steady,
  until,
  up,
  WANTED,
  WITHOUT_GPT,
} from "./alert-scenes.ts";
import { clusterValues, first, lockedImages, type Values } from "./stacks.ts";
import { expressionsOf, STACKS, scaledValues, watched } from "./watched-stacks.ts";

function stackOf(values: Values) {
  const { plan } = watched(values);
  return kubernetesStack(plan, { stack: "demo", images: lockedImages(plan) });
}

/** Names of its Jobs have a hash of what they make. */
const BUILD = first(stackOf(scaledValues).builds).name;
const FAULTS = faults(BUILD);
/** A rate is seen a sample later than what it counts. */
const SLACK_MINUTES = 3;

const promtool = await debianProgram("promtool");
const missing = "reason" in promtool ? ` (skipped: ${promtool.reason})` : "";

describe.skipIf(missing !== "")(`promtool${missing}`, () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-rules-"));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** JSON is YAML. */
  function written(name: string, value: unknown): string {
    const file = join(folder, `${name}.yaml`);
    writeFileSync(file, JSON.stringify(value));
    return file;
  }

  function run(...words: readonly string[]) {
    const path = "path" in promtool ? promtool.path : "";
    const { status, stdout, stderr } = spawnSync(path, words, { encoding: "utf8", cwd: folder });
    return { status, text: `${stdout}${stderr}` };
  }

  test("takes the rules of every stack, and finds none of them twice", () => {
    const files = Object.values(STACKS).map((values, index) =>
      written(`rules-${index}`, { groups: ruleGroups(watched(values).monitoring.rules) }),
    );
    const { status, text } = run("check", "rules", "--lint=all", "--lint-fatal", ...files);
    expect(text.match(/SUCCESS: \d+ rules found/g) ?? text).toHaveLength(files.length);
    expect(status).toBe(0);
  });

  test("takes every expression of every stack's dashboards and autoscalers", () => {
    const expressions = new Set(
      Object.values(STACKS).flatMap((values) => {
        const queries = stackOf(values).autoscalers.flatMap(({ metrics }) =>
          metrics.map(({ query }) => query),
        );
        return [...expressionsOf(watched(values).monitoring), ...queries];
      }),
    );
    expect(expressions.size).toBeGreaterThan(100);
    const rules = [...expressions].map((expr, index) => ({ record: `expression_${index}`, expr }));
    const { status, text } = run(
      "check",
      "rules",
      written("expressions", { groups: [{ name: "all", rules }] }),
    );
    expect(text).toContain(`SUCCESS: ${expressions.size} rules found`);
    expect(status).toBe(0);
  });

  test.each(["sum(", "up{a=}", "rate(up[5])) > 1", "sum by (a (up)", "rate(up) > 1", 'sum("up")'])(
    "refuses %s",
    (expr) => {
      const file = written("wrong", { groups: [{ name: "wrong", rules: [{ record: "wrong", expr }] }] });
      expect(run("check", "rules", file)).toMatchObject({
        status: 1,
        text: expect.stringContaining("could not parse"),
      });
    },
  );

  /** The rule that an alert is of: labels of its own are among those of the alert. */
  function planned(alerts: readonly AlertPlan[], { alert, labels }: Fired): AlertPlan {
    const rules = alerts.filter(
      (rule) =>
        rule.name === alert && Object.entries(rule.labels).every(([label, value]) => labels[label] === value),
    );
    const [rule] = rules.toSorted((a, b) => Object.keys(b.labels).length - Object.keys(a.labels).length);
    if (rule === undefined) throw new Error(`No rule is called ${alert}.`);
    return rule;
  }

  /** Runs `promtool test rules`; a failure's text says what fired instead. */
  function expectAlerts(values: Values, { changes, fires }: Omit<Scene, "title">): void {
    const { alerts } = watched(values).monitoring.rules;
    const seconds = fires.map((fired) => planned(alerts, fired).forSeconds);
    const quietUntil = FAULT_MINUTE + Math.min(...seconds, Number.POSITIVE_INFINITY) / 60 - 1;
    const firesAt =
      fires.length === 0 ? LAST_MINUTE : FAULT_MINUTE + Math.max(...seconds) / 60 + SLACK_MINUTES;
    const series = Object.entries({ ...HEALTHY, ...changes });
    const checks = ALERT_NAMES.flatMap((alertname) => [
      ...(Number.isFinite(quietUntil) ? [{ eval_time: `${quietUntil}m`, alertname, exp_alerts: [] }] : []),
      {
        eval_time: `${firesAt}m`,
        alertname,
        exp_alerts: fires
          .filter(({ alert }) => alert === alertname)
          .map((fired) => {
            const { labels, severity, runbook } = planned(alerts, fired);
            return {
              exp_labels: { ...labels, severity, ...fired.labels },
              exp_annotations: { summary: fired.summary, runbook_url: runbook },
            };
          }),
      },
    ]);
    const rules = written("rules", { groups: ruleGroups(watched(values).monitoring.rules) });
    const tests = written("tests", {
      rule_files: [rules],
      evaluation_interval: "1m",
      tests: [
        {
          interval: "1m",
          input_series: series.flatMap(([name, of]) => (of === null ? [] : [{ series: name, values: of }])),
          alert_rule_test: checks,
        },
      ],
    });
    expect(run("test", "rules", tests)).toEqual({ status: 0, text: expect.stringContaining("SUCCESS") });
  }

  test.each(FAULTS)("$title", (scene) => expectAlerts(scaledValues, scene));

  test.each(NO_FAULTS)("nothing fires $title", (scene) =>
    expectAlerts(scaledValues, { ...scene, fires: [] }),
  );

  test("nothing fires for a server that `npm run sleep` has put at zero", () => {
    expectAlerts(clusterValues, { changes: { ...WITHOUT_GPT, [WANTED]: steady(0) }, fires: [] });
  });

  test("a server that should be there and is not read fires, with and without kube-state-metrics", () => {
    for (const wanted of [steady(1), null])
      expectAlerts(clusterValues, {
        changes: { ...WITHOUT_GPT, [up("gpt")]: until(1), [WANTED]: wanted },
        fires: [
          {
            alert: "EngineRoomTargetAbsent",
            labels: { namespace: "engine-room", service: "gpt" },
            summary: "Prometheus reads no pod of gpt.",
          },
        ],
      });
  });

  test("every alert has a scene in which it fires", () => {
    expect([...new Set(FAULTS.flatMap(({ fires }) => fires.map(({ alert }) => alert)))].sort()).toEqual([
      ...ALERT_NAMES,
    ]);
  });
});
