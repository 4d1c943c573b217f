import { describe, expect, test } from "vitest";
import { POLICY_NAMES } from "../../../infra/plan/catalogue/types.ts";
import { stackPolicy, type Violation } from "../../../policy/stack-policy.ts";
import { type RenderedTree, unrendered } from "../../../scripts/diff/rendered-tree.ts";
import { knownViolations, stackViolations } from "../../../scripts/diff/violations.ts";
import { resource } from "./fixtures.ts";

describe("new violations", () => {
  /** Violations of Jobs, by name and image. */
  function violationsOf(images: Readonly<Record<string, string>>): readonly Violation[] {
    return Object.entries(images).map(([name, image]) => ({
      policy: "image-has-digest",
      level: "mandatory",
      resource: `urn:pulumi:prod::engine-room::kubernetes:batch/v1:Job::${name}`,
      reason: `The container builder runs ${image}, which names no digest.`,
      fix: "Push it.",
    }));
  }

  test.each([
    ["the same resource", { a: "i:1" }, { a: "i:1" }, [false]],
    ["a rebuilt engine's Job", { "gpt-935afaa63dc5": "i:1" }, { "gpt-7359c2b2bfb8": "i:1" }, [false]],
    ["an image of other content", { a: "i:25.07-73fcec287952" }, { a: "i:25.07-aaaabbbbcccc" }, [false]],
    ["a renamed resource", { gpt: "i:1" }, { chat: "i:1" }, [false]],
    ["a second resource for the same reason", { a: "i:1" }, { a: "i:1", b: "i:1" }, [false, true]],
    [
      "a second Job for the same reason",
      { "a-935afaa63dc5": "i:1" },
      { "a-7359c2b2bfb8": "i:1", b: "i:1" },
      [false, true],
    ],
    ["another image of the same resource", { a: "i:1" }, { a: "other:1" }, [false]],
    ["another image of a second resource", { a: "i:1" }, { a: "i:1", b: "other:1" }, [false, true]],
  ])("a violation by %s is new or known", (_title, before, after, expected) => {
    const found = violationsOf(after);
    const known = knownViolations(found, violationsOf(before));
    expect(found.map((one) => !known.has(one))).toEqual(expected);
  });

  test("violations are neither new nor known if the base could not be read", () => {
    const levels = Object.fromEntries(
      POLICY_NAMES.filter((name) => name !== "image-has-digest").map((name) => [name, "off"]),
    );
    const policy = stackPolicy("prod", {
      "engine-room:platform": "kubernetes",
      "engine-room:tier": "cpu",
      "engine-room:models": JSON.stringify([{ name: "smollm2", model: "smollm2-135m-instruct" }]),
      "engine-room:policies": JSON.stringify({ levels }),
    });
    const pod = resource("kubernetes:core/v1:Pod", "a", {
      spec: { containers: [{ name: "a", image: "i:1" }] },
    });
    const head = { ...unrendered(null), resources: [pod], outputs: {} };
    const isNew = (base: RenderedTree) =>
      stackViolations(base, head, policy).violations.map((violation) => violation.isNew);
    expect(isNew({ ...head, resources: null })).toEqual([null]);
    expect(isNew(head)).toEqual([false]);
    expect(isNew({ ...head, resources: [] })).toEqual([true]);
  });
});
