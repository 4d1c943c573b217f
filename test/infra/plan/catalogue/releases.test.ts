import { expect, test } from "vitest";
import { advisories, openAdvisories } from "../../../../infra/plan/catalogue/advisories.ts";
import {
  type MetricSeries,
  tensorRtLlmSeries,
  tritonMetrics,
  tritonSeries,
} from "../../../../infra/plan/catalogue/metrics.ts";
import {
  compareVersions,
  DEFAULT_RELEASE,
  isReleaseTag,
  RELEASE_TAGS,
  type ReleaseTag,
  releases,
} from "../../../../infra/plan/catalogue/releases.ts";
import { TEMPLATE_REFS, templateSet } from "../../../../infra/plan/catalogue/templates.ts";
import type { Release } from "../../../../infra/plan/catalogue/types.ts";

const rows: readonly Release[] = Object.values(releases);

test("releases are all tags from 24.02 to 26.07, one a month", () => {
  const months = RELEASE_TAGS.map((tag) => Number(tag.slice(0, 2)) * 12 + Number(tag.slice(3)));
  expect(RELEASE_TAGS[0]).toBe("24.02");
  expect(RELEASE_TAGS.at(-1)).toBe("26.07");
  expect(months).toEqual(months.map((_, index) => (months[0] ?? 0) + index));
  expect(rows.map(({ tag }) => tag)).toEqual([...RELEASE_TAGS]);
});

test("releases never go back in their TensorRT-LLM version", () => {
  for (const [index, { tensorRtLlm }] of rows.slice(1).entries()) {
    expect(compareVersions(rows[index]?.tensorRtLlm ?? "", tensorRtLlm)).toBeLessThanOrEqual(0);
  }
});

test("exactly the releases with engines have a template set", () => {
  for (const { tag, templates, runtimes } of rows) {
    expect([tag, templates !== null]).toEqual([tag, runtimes.includes("engine")]);
    if (templates !== null) expect(TEMPLATE_REFS).toContain(templates);
  }
});

test("verified releases use the templates of their own TensorRT-LLM minor or branch", () => {
  for (const { tag, tensorRtLlm, templates, verified } of rows) {
    if (templates === null || !verified) continue;
    const minor = tensorRtLlm.split(".").slice(0, 2).join(".");
    expect([`r${tag}`, `v${minor}`]).toContain(
      templates.startsWith("r") ? templates : templates.split(".").slice(0, 2).join("."),
    );
  }
});

test("unverified releases have a note, and verified releases a TensorRT version", () => {
  for (const { tag, verified, note, tensorRt } of rows) {
    if (!verified) expect([tag, note]).toEqual([tag, expect.stringMatching(/\.$/)]);
    else if (tag >= "24.04") expect([tag, tensorRt]).toEqual([tag, expect.stringMatching(/^\d+\.\d/)]);
  }
  expect(rows.filter(({ verified }) => !verified).map(({ tag }) => tag)).toEqual([
    "25.08",
    "25.09",
    "25.10",
    "25.11",
    "26.03",
    "26.04",
    "26.05",
    "26.06",
    "26.07",
  ]);
});

// Commits of the tags and branches of triton-inference-server/tensorrtllm_backend.
test("releases before 25.01 pin a commit of the backend, and those from 25.06 on serve llmapi", () => {
  const commits = new Map(rows.map(({ templates, backendCommit }) => [templates, backendCommit]));
  expect(commits.get("v0.8.0")).toBe("41fe3a6a9daa12c64403e084298c6169b07d489d");
  expect(commits.get("v0.16.0")).toBe("ad209ced188cbae19c7041d968dd4e6d3800ece2");
  for (const { tag, backendCommit, runtimes } of rows) {
    if (tag >= "25.01") expect([tag, backendCommit]).toEqual([tag, undefined]);
    else expect([tag, backendCommit]).toEqual([tag, expect.stringMatching(/^[0-9a-f]{40}$/)]);
    expect([tag, runtimes.includes("llmapi")]).toEqual([tag, tag >= "25.06"]);
  }
});

test("releases name only branches that the backend repository has", () => {
  const withoutBranch = ["24.02", "24.03", "24.05", "24.06", "24.07", "24.11", "24.12", "25.01"];
  for (const { tag, templates } of rows) {
    if (templates?.startsWith("r")) expect(templates).toBe(`r${tag}`);
    if (withoutBranch.includes(tag)) expect(templates).toMatch(/^v/);
  }
});

test("releases list the runtimes that upstream has ended, and engines only if they can build them", () => {
  for (const { tag, endOfLife } of rows) {
    expect([tag, endOfLife.map(({ runtime }) => runtime)]).toEqual([
      tag,
      [...(tag <= "26.02" ? ["engine"] : []), ...(tag >= "25.12" ? ["multimodal"] : [])],
    ]);
  }
});

// https://github.com/triton-inference-server/server/blob/main/docs/introduction/compatibility.md
test("releases have the versions of Triton's support matrix", () => {
  expect(releases[DEFAULT_RELEASE]).toMatchObject({
    tag: "25.07",
    tensorRtLlm: "0.20.0",
    tensorRt: "10.10.0.31",
    cuda: "12.9.0.036",
    minimumDriver: "575.51.03",
    imageGB: 18.3,
    templates: "v0.20.0",
    verified: true,
  });
  expect(releases["24.04"]).toMatchObject({
    tensorRtLlm: "0.9.0",
    tensorRt: "9.3.0.post12.dev1",
    minimumDriver: "545.23.08",
  });
  expect(releases["25.02"]).toMatchObject({ tensorRtLlm: "0.17.0.post1", minimumDriver: "570.86.10" });
  expect(releases["26.07"]).toMatchObject({ tensorRtLlm: "1.2.1", tensorRt: "10.14.1.48", imageGB: 14.2 });
});

test("release tags are recognized, and other words are not", () => {
  expect(isReleaseTag("25.07")).toBe(true);
  expect(isReleaseTag("25.13")).toBe(false);
  expect(isReleaseTag("toString")).toBe(false);
});

test("a template set has the placeholders of its version", () => {
  const keysOf = (ref: string, template: string) => templateSet(ref)?.models[template];
  expect(keysOf("v0.8.0", "gpt/preprocessing")).toEqual({
    mandatory: [],
    optional: ["tokenizer_dir", "tokenizer_type"],
  });
  expect(keysOf("v0.9.0", "gpt/preprocessing")).toEqual({ mandatory: [], optional: ["tokenizer_dir"] });
  expect(keysOf("v0.12.0", "multimodal/ensemble")).toBeUndefined();
  expect(keysOf("v0.13.0", "multimodal/ensemble")?.mandatory).toEqual(["triton_max_batch_size"]);
  expect(templateSet("v0.15.0")?.escapesCommas).toBe(false);
  expect(templateSet("v0.16.0")?.escapesCommas).toBe(true);
});

test("a template set is found only by a release's name for it", () => {
  expect(templateSet("v9.9.9")).toBeUndefined();
  expect(templateSet("toString")).toBeUndefined();
  expect(templateSet(null)).toBeUndefined();
});

const seriesText = ({ name, labels }: MetricSeries) => {
  const { model, ...rest } = labels;
  expect(model).toBe("tensorrt_llm");
  const pairs = Object.entries(rest).map(([key, value]) => `${key}="${value}"`);
  return `${name}{${pairs.join(",")}}`;
};

const seriesOf = (release: string, tritonBackend: "tensorrtllm" | "python" = "tensorrtllm") =>
  tensorRtLlmSeries({ flavour: "inflight_batcher_llm", tritonBackend }, release).map(seriesText);

/** "Triton Metrics" of tensorrtllm_backend's README at v0.8.0, sorted. */
const AT_24_02 = [
  'nv_trt_llm_general_metrics{general_type="iteration_counter"}',
  'nv_trt_llm_general_metrics{general_type="timestamp"}',
  'nv_trt_llm_inflight_batcher_metrics{inflight_batcher_specific_metric="generation_requests"}',
  'nv_trt_llm_inflight_batcher_metrics{inflight_batcher_specific_metric="micro_batch_id"}',
  'nv_trt_llm_inflight_batcher_metrics{inflight_batcher_specific_metric="total_context_tokens"}',
  'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="free"}',
  'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max"}',
  'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per"}',
  'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used"}',
  'nv_trt_llm_request_metrics{request_type="active"}',
  'nv_trt_llm_request_metrics{request_type="context"}',
  'nv_trt_llm_request_metrics{request_type="max"}',
  'nv_trt_llm_request_metrics{request_type="scheduled"}',
  'nv_trt_llm_runtime_memory_metrics{memory_type="cpu"}',
  'nv_trt_llm_runtime_memory_metrics{memory_type="gpu"}',
  'nv_trt_llm_runtime_memory_metrics{memory_type="pinned"}',
];

test("TensorRT-LLM of 24.02 reports the series that its README prints", () => {
  expect(seriesOf("24.02").sort()).toEqual(AT_24_02);
});

test("TensorRT-LLM of 25.07 reports the series that custom_metrics_reporter.cc added", () => {
  const added = seriesOf("25.07").filter((one) => !AT_24_02.includes(one));
  expect(added.sort()).toEqual([
    'nv_llm_input_token_len_count{response_metric_type="total_input_tokens"}',
    'nv_llm_output_token_len_count{response_metric_type="total_output_tokens"}',
    'nv_trt_llm_disaggregated_serving_metrics{disaggregated_serving_type="kv_cache_transfer_ms"}',
    'nv_trt_llm_disaggregated_serving_metrics{disaggregated_serving_type="request_count"}',
    'nv_trt_llm_inflight_batcher_metrics{inflight_batcher_specific_metric="paused_requests"}',
    'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction"}',
    'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="reused"}',
    'nv_trt_llm_request_metrics{request_type="waiting"}',
  ]);
});

test("the Python backend lacks the series that model.py never reports", () => {
  const missing = seriesOf("25.07").filter((one) => !seriesOf("25.07", "python").includes(one));
  expect(missing.map((one) => one.replace(/\{.*"(.*)"\}/, " $1")).sort()).toEqual([
    "nv_trt_llm_disaggregated_serving_metrics kv_cache_transfer_ms",
    "nv_trt_llm_disaggregated_serving_metrics request_count",
    "nv_trt_llm_kv_cache_block_metrics reused",
  ]);
  expect(seriesOf("24.06", "python")).toEqual([]);
});

test("the series of waiting requests, which autoscaling needs, comes with 25.04", () => {
  const waiting = 'nv_trt_llm_request_metrics{request_type="waiting"}';
  expect(RELEASE_TAGS.filter((tag) => seriesOf(tag).includes(waiting))[0]).toBe("25.04");
});

test("every release has the series of the release before", () => {
  RELEASE_TAGS.slice(1).forEach((tag, index) => {
    expect(seriesOf(tag)).toEqual(expect.arrayContaining(seriesOf(String(RELEASE_TAGS[index]))));
  });
});

test.each(["gpt", "llmapi"] as const)(
  "a repository of flavour %s has no series of TensorRT-LLM",
  (flavour) => {
    expect(tensorRtLlmSeries({ flavour, tritonBackend: "python" }, "25.07")).toEqual([]);
  },
);

test("series of an unknown release are an error", () => {
  expect(() => seriesOf("23.01")).toThrow("The release 23.01 is in no row");
});

test("Triton's own series exist for every model", () => {
  expect(tritonSeries(["a", "b"])).toHaveLength(2 * tritonMetrics.length);
  expect(tritonSeries(["a"])).toContainEqual({ name: "nv_inference_count", labels: { model: "a" } });
});

const open = (tag: ReleaseTag) => openAdvisories(releases[tag]).map(({ id }) => id);

test("advisories are unique CVEs with a bulletin and a sentence", () => {
  const ids = advisories.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  for (const { id, summary, source, component, fixedIn } of advisories) {
    expect(id).toMatch(/^CVE-\d{4}-\d{4,5}$/);
    expect(summary).toMatch(/^[A-Z].*\.$/);
    expect(source).toMatch(
      /^https:\/\/github\.com\/NVIDIA\/product-security\/blob\/main\/(\d{4}\/\d{4})\/\d{4}\.md$/,
    );
    if (component === "triton") expect(RELEASE_TAGS).toContain(fixedIn);
    else expect(compareVersions(fixedIn, fixedIn)).toBe(0);
  }
});

test("advisories of Triton close with the container tag that fixes them", () => {
  expect(open("25.06")).toContain("CVE-2025-23310");
  expect(open("25.07")).not.toContain("CVE-2025-23310");
  expect(open("25.07")).toContain("CVE-2025-23316");
  expect(open("25.08")).not.toContain("CVE-2025-23316");
  expect(open("26.02")).toContain("CVE-2026-24207");
  expect(open("26.03")).not.toContain("CVE-2026-24207");
});

test("advisories of TensorRT-LLM close with its version, not with a tag", () => {
  expect(open("25.03")).toContain("CVE-2025-23254");
  expect(open("25.04")).not.toContain("CVE-2025-23254");
  expect(open("26.02")).toContain("CVE-2025-33255");
  expect(open("26.03")).not.toContain("CVE-2025-33255");
  expect(open("26.03")).toContain("CVE-2026-24205");
  expect(open("26.04")).not.toContain("CVE-2026-24205");
});

test("newer releases have no advisory that an older one lacks", () => {
  for (const [index, tag] of RELEASE_TAGS.slice(1).entries()) {
    const before = open(RELEASE_TAGS[index] ?? tag);
    expect(before).toEqual(expect.arrayContaining(open(tag)));
  }
  expect(openAdvisories(releases["26.07"]).map(({ component }) => component)).not.toContain("triton");
});

test("TensorRT-LLM versions are ordered: release candidates before releases, post-releases after them", () => {
  const ordered = [
    "0.9.0",
    "0.17.0",
    "0.17.0.post1",
    "0.18.2",
    "1.0.3.2510",
    "1.2.0rc8",
    "1.2",
    "1.2.1",
    "1.3.0rc2",
    "1.3.0rc12",
    "1.3.0",
  ];
  for (const [index, version] of ordered.slice(1).entries()) {
    expect([version, compareVersions(ordered[index] ?? "", version) < 0]).toEqual([version, true]);
    expect([version, compareVersions(version, ordered[index] ?? "") > 0]).toEqual([version, true]);
  }
  expect(compareVersions("1.2", "1.2.0")).toBe(0);
});

test("comparing TensorRT-LLM versions refuses a branch name", () => {
  expect(() => compareVersions("main", "1.0.0")).toThrow(RangeError);
});
