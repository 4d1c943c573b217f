import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import {
  approvedPreview,
  changesNothing,
  previewDifferences,
  readApprovedPreview,
  requireApproved,
} from "../../../scripts/stack/approved-preview.ts";
import { stackDiff } from "../diff/diffs.ts";

const recorded = (name: string) =>
  readFileSync(join(projectRoot, "test/recorded/previews", `${name}.json`), "utf8");

interface Step {
  op: string;
  urn: string;
  newState?: { inputs?: Record<string, unknown> };
  oldState?: { inputs?: Record<string, unknown> };
}
type Preview = { steps: Step[]; duration: number };

/** A recorded preview with each operation, and a change. */
function changed(change: (preview: Preview) => void): string {
  const preview = JSON.parse(recorded("each-operation")) as Preview;
  change(preview);
  return JSON.stringify(preview);
}

const approved = (text = recorded("each-operation")) => approvedPreview("demo", text);

const stepOf = ({ steps }: Preview, op: string): Step => {
  const found = steps.find((step) => step.op === op && step.newState?.inputs !== undefined);
  if (found === undefined) throw new Error(`The recorded preview has no step ${op}.`);
  return found;
};

describe("the digest of a preview", () => {
  test("the digest is the same for the same changes, with any order and time", () => {
    const { digest } = approved();
    expect(digest).toMatch(/^[0-9a-f]{64}$/);
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 0 }), (seed, duration) => {
        const other = changed((preview) => {
          preview.duration = duration;
          preview.steps = preview.steps
            .map((step, index) => ({ step, order: Math.imul(index + 1, seed | 1) }))
            .toSorted((a, b) => a.order - b.order)
            .map(({ step }) => step);
        });
        expect(approved(other).digest).toBe(digest);
      }),
      { numRuns: 20 },
    );
  });

  test("the digest differs for another operation, value or former value, and for a missing resource", () => {
    const others = [
      changed((preview) => Object.assign(stepOf(preview, "update"), { op: "replace" })),
      changed((preview) => Object.assign(stepOf(preview, "update").newState?.inputs ?? {}, { port: 1 })),
      changed((preview) => Object.assign(stepOf(preview, "update").oldState?.inputs ?? {}, { port: 1 })),
      changed((preview) => preview.steps.splice(preview.steps.indexOf(stepOf(preview, "create")), 1)),
    ];
    const digests = others.map((other) => approved(other).digest);
    expect(new Set([approved().digest, ...digests]).size).toBe(others.length + 1);
  });

  test("the digest of a preview without changes exists, and has no resource", () => {
    const unchanged = approved(JSON.stringify({ steps: [], changeSummary: { same: 12 } }));
    expect(unchanged).toMatchObject({ stack: "demo", changes: {} });
    expect(previewDifferences(approved(), unchanged)).not.toEqual([]);
  });

  test("the digest neither shows nor hashes a value of a secret", () => {
    const withSecret = (value: string) =>
      changed((preview) =>
        Object.assign(stepOf(preview, "update").newState?.inputs ?? {}, {
          password: {
            "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
            plaintext: value,
          },
        }),
      );
    const canary = approved(withSecret('"canary-4711"'));
    expect(JSON.stringify(canary)).not.toContain("canary");
    expect(approved(withSecret('"another"')).digest).toBe(canary.digest);
  });
});

describe("an `up` after an approval", () => {
  test("an `up` is not stopped if its own preview equals the approved preview", () => {
    expect(() => requireApproved(approved(), approved())).not.toThrow();
  });

  test("an `up` is stopped with a sentence for each resource that differs, and with the next step", () => {
    const now = approved(
      changed((preview) => {
        stepOf(preview, "update").op = "replace";
        preview.steps.splice(preview.steps.indexOf(stepOf(preview, "create")), 1);
      }),
    );
    const differences = previewDifferences(approved(), now);
    expect(differences).toHaveLength(2);
    expect(differences).toContainEqual(
      expect.stringMatching(/: update in the approved preview, replace now$/),
    );
    expect(differences).toContainEqual(
      expect.stringMatching(/: create in the approved preview, unchanged now$/),
    );
    expect(() => requireApproved(approved(), now)).toThrow(
      /^Nothing of the stack demo was changed, because its preview differs from the approved preview: 2 resources differ\.\n- .*\n- .*\nChoose "Re-run all jobs" in the newest run of `deploy`/,
    );
  });

  test("an `up` is stopped with the path of a value that differs", () => {
    const values = (port: number) =>
      approved(
        changed((preview) => Object.assign(stepOf(preview, "update").newState?.inputs ?? {}, { port })),
      );
    expect(previewDifferences(values(1), values(2))).toEqual([
      expect.stringMatching(/: other values at port$/),
    ]);
  });

  test("an `up` is stopped if the approved preview is another stack's", () => {
    expect(() => requireApproved(approved(), { ...approved(), stack: "prod" })).toThrow(
      "The approved preview belongs to the stack demo, not to prod.",
    );
  });
});

test("an approved preview is read as it was printed, and refused if its digest does not match its changes", () => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-approved-"));
  try {
    const read = (preview: object) => {
      const file = join(folder, "demo.json");
      writeFileSync(file, JSON.stringify(preview));
      return readApprovedPreview(file);
    };
    const printed = approved();
    expect(read(printed)).toEqual(printed);
    const [urn = ""] = Object.keys(printed.changes);
    const { [urn]: _left, ...changes } = printed.changes;
    expect(() => read({ ...printed, changes })).toThrow("its digest does not match its changes");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("another version of a provider requires an approval, and another version of only the SDK does not", () => {
  const nothing = { version: 1 as const, stack: "demo", digest: "", changes: {} };
  const by = (provider: string, resources: { readonly type: string; readonly count: number }[]) =>
    changesNothing(
      nothing,
      stackDiff({ providers: [{ provider, before: "1.0.0", after: "1.1.0", resources }] }),
    );
  expect(by("aws", [{ type: "aws:eks/cluster:Cluster", count: 1 }])).toBe(false);
  expect(by("@pulumi/pulumi", [])).toBe(true);
});
