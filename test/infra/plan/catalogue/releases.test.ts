import { describe, expect, it } from "vitest";
import { compareTensorRtLlmVersions } from "../../../../infra/plan/catalogue/advisories.ts";
import {
  DEFAULT_RELEASE,
  isReleaseTag,
  RELEASE_TAGS,
  releases,
} from "../../../../infra/plan/catalogue/releases.ts";
import { templateSets } from "../../../../infra/plan/catalogue/templates.ts";
import type { Release } from "../../../../infra/plan/catalogue/types.ts";

const rows: readonly Release[] = Object.values(releases);

describe("releases", () => {
  it("are all tags from 24.02 to 26.07, a month apart, under their own names", () => {
    const months = RELEASE_TAGS.map((tag) => Number(tag.slice(0, 2)) * 12 + Number(tag.slice(3)));
    expect(RELEASE_TAGS[0]).toBe("24.02");
    expect(RELEASE_TAGS.at(-1)).toBe("26.07");
    expect(months).toEqual(months.map((_, index) => (months[0] ?? 0) + index));
    expect(rows.map(({ tag }) => tag)).toEqual([...RELEASE_TAGS]);
  });

  it("never go back in TensorRT-LLM", () => {
    for (const [index, { tensorRtLlm }] of rows.slice(1).entries()) {
      expect(compareTensorRtLlmVersions(rows[index]?.tensorRtLlm ?? "", tensorRtLlm)).toBeLessThanOrEqual(0);
    }
  });

  it("have a template set of the catalogue and a recipe range that holds their version, or neither", () => {
    for (const { tag, tensorRtLlm, templates, recipes, runtimes } of rows) {
      expect([tag, runtimes.includes("engine")]).toEqual([tag, recipes !== null]);
      expect([tag, templates !== null]).toEqual([tag, recipes !== null]);
      if (templates !== null) expect(Object.keys(templateSets)).toContain(templates);
      if (recipes === null) continue;
      const [first = "", last = first] = recipes.split("-");
      const minor = tensorRtLlm.split(".").slice(0, 2).join(".");
      expect([tag, compareTensorRtLlmVersions(minor, first) >= 0]).toEqual([tag, true]);
      expect([tag, compareTensorRtLlmVersions(minor, last) <= 0]).toEqual([tag, true]);
    }
  });

  it("use templates of their own TensorRT-LLM minor where a tag names them, or of their own branch", () => {
    for (const { tag, tensorRtLlm, templates, verified } of rows) {
      if (templates === null || !verified) continue;
      const minor = tensorRtLlm.split(".").slice(0, 2).join(".");
      expect([`r${tag}`, `v${minor}`]).toContain(
        templates.startsWith("r") ? templates : templates.split(".").slice(0, 2).join("."),
      );
    }
  });

  it("say what is open where a fact is, and know their versions where none is", () => {
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
  it("get TensorRT-LLM's files from the backend's commit before 25.01, and serve llmapi from 25.06 on", () => {
    const commits = new Map(rows.map(({ backendRef, backendCommit }) => [backendRef, backendCommit]));
    expect(commits.get("v0.8.0")).toBe("41fe3a6a9daa12c64403e084298c6169b07d489d");
    expect(commits.get("v0.16.0")).toBe("ad209ced188cbae19c7041d968dd4e6d3800ece2");
    for (const { tag, backendCommit, runtimes } of rows) {
      if (tag >= "25.01") expect([tag, backendCommit]).toEqual([tag, undefined]);
      else expect([tag, backendCommit]).toEqual([tag, expect.stringMatching(/^[0-9a-f]{40}$/)]);
      expect([tag, runtimes.includes("llmapi")]).toEqual([tag, tag >= "25.06"]);
    }
  });

  it("name only branches that the backend has", () => {
    const withoutBranch = ["24.02", "24.03", "24.05", "24.06", "24.07", "24.11", "24.12", "25.01"];
    for (const { tag, backendRef } of rows) {
      expect(backendRef).toMatch(/^(r\d\d\.\d\d|v\d+\.\d+\.\d+)$/);
      if (backendRef.startsWith("r")) expect(backendRef).toBe(`r${tag}`);
      if (withoutBranch.includes(tag)) expect(backendRef).toMatch(/^v/);
    }
  });

  it("say of every one that has engines that upstream gave them up", () => {
    for (const { tag, endOfLife = [] } of rows) {
      expect([tag, endOfLife.map(({ runtime }) => runtime)]).toEqual([
        tag,
        tag >= "25.12" ? ["engine", "multimodal"] : ["engine"],
      ]);
    }
  });

  // https://github.com/triton-inference-server/server/blob/main/docs/introduction/compatibility.md
  it("have the versions of Triton's matrix", () => {
    expect(releases[DEFAULT_RELEASE]).toMatchObject({
      tag: "25.07",
      tensorRtLlm: "0.20.0",
      tensorRt: "10.10.0.31",
      cuda: "12.9.0.036",
      minimumDriver: "575.51.03",
      imageGB: 18.3,
      python: "3.12.3",
      templates: "v0.20.0",
      verified: true,
    });
    expect(releases["24.04"]).toMatchObject({
      tensorRtLlm: "0.9.0",
      tensorRt: "9.3.0.post12.dev1",
      minimumDriver: "545.23.08",
      python: "3.10.12",
    });
    expect(releases["25.02"]).toMatchObject({ tensorRtLlm: "0.17.0.post1", minimumDriver: "570.86.10" });
    expect(releases["26.07"]).toMatchObject({ tensorRtLlm: "1.2.1", tensorRt: "10.14.1.48", imageGB: 14.2 });
  });

  it("are recognized by tag alone", () => {
    expect(isReleaseTag("25.07")).toBe(true);
    expect(isReleaseTag("25.13")).toBe(false);
    expect(isReleaseTag("toString")).toBe(false);
  });
});
