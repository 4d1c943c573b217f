import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { networkPolicies } from "../../../components/kubernetes/network-policy-args.ts";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { genaiPerfTable } from "../../../scripts/bench/genai-perf.ts";
import {
  DEFAULT_LOAD,
  figuresOf,
  genaiPerfJob,
  measuredPlan,
} from "../../../scripts/bench/genai-perf-job.ts";
import { clusterTarget } from "../../../scripts/program/cluster-target.ts";
import { type FakeKubectl, fakeKubectl, STACK, watch } from "./fake-kubectl.ts";

function targetOf(values: Readonly<Record<string, unknown>> = STACK) {
  const { plan } = checkedPlan(values);
  if (plan.platform !== "kubernetes") throw new Error("not a stack in a cluster");
  return clusterTarget(plan, "fake");
}

const FIGURES = {
  time_to_first_token: { unit: "ms", avg: 13.68, p50: 13, p90: 14.29, p99: 18.81 },
  output_token_throughput: { unit: "tokens/sec", avg: 480 },
};
const LOG = `[INFO] profiling\n\n@@figures\n${JSON.stringify({ ...FIGURES, input_config: { model: ["m"] }, telemetry: null })}`;

interface PodSpec {
  readonly containers: readonly [
    { readonly image: string; readonly args: readonly string[]; readonly securityContext: object },
  ];
}

describe("the Job", () => {
  const target = targetOf();
  const plan = measuredPlan(target);
  const job = genaiPerfJob(target, "llava", { suffix: "x", load: DEFAULT_LOAD });
  const { template } = job.spec as {
    readonly template: { readonly metadata: { readonly labels: object }; readonly spec: PodSpec };
  };

  test("runs the release's own SDK image on the model's Triton, with the tokenizer of the store", () => {
    const [{ image, args }] = template.spec.containers;
    expect(image).toBe(`nvcr.io/nvidia/tritonserver:${plan.release.tag}-py3-sdk`);
    const value = (option: string) => args[args.indexOf(option) + 1];
    expect(args[0]).toBe("profile");
    expect(value("--url")).toBe("llava:8001");
    expect(value("--tokenizer")).toMatch(/^\/store\//);
    expect(value("--concurrency")).toBe("8");
    expect(args).not.toContain("--service-kind");
  });

  test("has the labels by which the policies let it reach Triton", () => {
    const { edges, selector } = target.stack;
    const bench = networkPolicies(edges, selector).find(({ role }) => role === "bench") ?? expect.fail();
    const { podSelector } = bench.spec as { readonly podSelector: { readonly matchLabels: object } };
    expect(template.metadata.labels).toMatchObject(podSelector.matchLabels);
  });

  test("a release without the program, a model that is not there", () => {
    const old = { ...target, plan: { ...plan, release: { ...plan.release, tag: "24.07" } } };
    const options = { suffix: "x", load: DEFAULT_LOAD };
    expect(() => genaiPerfJob(old, "llava", options)).toThrow(/24\.08 and newer.*has 24\.07/);
    expect(() => genaiPerfJob(target, "gpt", options)).toThrow(/no model gpt; it has llava/);
  });
});

test("figures are what has a unit and an average; a log without them is an error with its end", () => {
  expect(figuresOf(LOG)).toEqual(FIGURES);
  expect(() => figuresOf("Traceback\nOSError: no tokenizer")).toThrow(
    /no figures.*\n.*\nOSError: no tokenizer/,
  );
});

test("the table compares averages with those of another release", () => {
  const record = {
    model: "llava",
    release: "25.07",
    engineKey: null,
    image: "i",
    load: DEFAULT_LOAD,
    figures: FIGURES,
  };
  const before = {
    ...record,
    release: "25.04",
    figures: {
      time_to_first_token: { unit: "ms", avg: 27.36 },
      output_token_throughput: { unit: "tokens/s", avg: 1 },
    },
  };
  const lines = genaiPerfTable(record, before);
  expect(lines[0]).toMatch(/against 25\.04$/);
  expect(lines[1]).toMatch(/^time_to_first_token \(ms\) .*13\.68.*18\.81 +× 0\.50$/);
  expect(lines[2]).toMatch(/480\.00$/);
});

describe("with a kubectl", () => {
  let kubectl: FakeKubectl;
  beforeEach(() => {
    kubectl = fakeKubectl();
  });
  afterEach(() => kubectl.remove());
  const condition = (type: string, message = "") => ({
    status: { conditions: [{ type, status: "True", message }] },
  });

  test("the Job is made, read and deleted, and its figures are kept", async () => {
    kubectl.answers({
      "create --namespace engine-room --filename -": "job.batch/bench created\n",
      "get --namespace engine-room --output json job/bench-llava-": condition("Complete"),
      "logs --namespace engine-room --tail -1 job/bench-llava-": LOG,
      "delete --namespace engine-room --wait=false --ignore-not-found job/bench-llava-": "",
    });
    const out = join(kubectl.folder, "figures.json");
    const output = watch(kubectl.run("bench", "--model", "llava", "--out", out));
    expect(await output.code, output.text()).toBe(0);
    const [applied = "{}"] = kubectl.inputs();
    const { kind, metadata } = JSON.parse(applied) as { kind: string; metadata: { name: string } };
    expect(kind).toBe("Job");
    expect(kubectl.calls().at(-1)?.at(-1)).toBe(`job/${metadata.name}`);
    expect(JSON.parse(readFileSync(out, "utf8"))).toMatchObject({ model: "llava", figures: FIGURES });
  });

  test("one that failed is deleted too, and its last lines are shown", async () => {
    kubectl.answers({
      create: "",
      get: condition("Failed", "Job has reached the specified backoff limit"),
      logs: "connection refused\n",
      delete: "",
    });
    writeFileSync(join(kubectl.folder, "before.json"), JSON.stringify({ release: "25.04", figures: {} }));
    const output = watch(
      kubectl.run("bench", "--model", "llava", "--against", join(kubectl.folder, "before.json")),
    );
    expect(await output.code).toBe(1);
    expect(output.text()).toMatch(/backoff limit\nconnection refused/);
    expect(kubectl.calls().at(-1)).toContain("delete");
  });
});
