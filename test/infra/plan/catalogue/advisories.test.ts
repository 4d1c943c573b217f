import { describe, expect, it } from "vitest";
import {
  advisories,
  compareTensorRtLlmVersions,
  openAdvisories,
} from "../../../../infra/plan/catalogue/advisories.ts";
import { RELEASE_TAGS, type ReleaseTag, releases } from "../../../../infra/plan/catalogue/releases.ts";

const open = (tag: ReleaseTag) => openAdvisories(releases[tag]).map(({ id }) => id);

describe("advisories", () => {
  it("are CVEs, each once, with a bulletin and a sentence", () => {
    const ids = advisories.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { id, summary, source, component, fixedIn } of advisories) {
      expect(id).toMatch(/^CVE-\d{4}-\d{4,5}$/);
      expect(summary).toMatch(/^[A-Z].*\.$/);
      expect(source).toMatch(
        /^https:\/\/github\.com\/NVIDIA\/product-security\/blob\/main\/(\d{4}\/\d{4})\/\d{4}\.md$/,
      );
      if (component === "triton") expect(RELEASE_TAGS).toContain(fixedIn);
      else expect(compareTensorRtLlmVersions(fixedIn, fixedIn)).toBe(0);
    }
  });

  it("of Triton close with the container tag that fixes them", () => {
    expect(open("25.06")).toContain("CVE-2025-23310");
    expect(open("25.07")).not.toContain("CVE-2025-23310");
    expect(open("25.07")).toContain("CVE-2025-23316");
    expect(open("25.08")).not.toContain("CVE-2025-23316");
    expect(open("26.02")).toContain("CVE-2026-24207");
    expect(open("26.03")).not.toContain("CVE-2026-24207");
  });

  it("of TensorRT-LLM close with its version, not with a tag", () => {
    expect(open("25.03")).toContain("CVE-2025-23254");
    expect(open("25.04")).not.toContain("CVE-2025-23254");
    expect(open("26.02")).toContain("CVE-2025-33255");
    expect(open("26.03")).not.toContain("CVE-2025-33255");
    expect(open("26.03")).toContain("CVE-2026-24205");
    expect(open("26.04")).not.toContain("CVE-2026-24205");
  });

  it("only become fewer with newer releases", () => {
    for (const [index, tag] of RELEASE_TAGS.slice(1).entries()) {
      const before = open(RELEASE_TAGS[index] ?? tag);
      expect(before).toEqual(expect.arrayContaining(open(tag)));
    }
    expect(openAdvisories(releases["26.07"]).map(({ component }) => component)).not.toContain("triton");
  });
});

describe("compareTensorRtLlmVersions", () => {
  it("orders candidates before releases and post-releases after them", () => {
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
      expect([version, compareTensorRtLlmVersions(ordered[index] ?? "", version) < 0]).toEqual([
        version,
        true,
      ]);
      expect([version, compareTensorRtLlmVersions(version, ordered[index] ?? "") > 0]).toEqual([
        version,
        true,
      ]);
    }
    expect(compareTensorRtLlmVersions("1.2", "1.2.0")).toBe(0);
  });

  it("refuses what is no version", () => {
    expect(() => compareTensorRtLlmVersions("main", "1.0.0")).toThrow(RangeError);
  });
});
