import { describe, expect, test } from "vitest";
import { refusals } from "../../../scripts/diff/blocking-changes.ts";
import { accessSection } from "../../../scripts/diff/guard-report.ts";
import { textReport } from "../../../scripts/diff/print.ts";
import { parsedDiff, type StackDiff } from "../../../scripts/diff/types.ts";
import { newMandatory } from "../../../scripts/diff/violations.ts";
import { stackFileText } from "../../harness/stack-files.ts";
import { diffOfFiles } from "./fixtures.ts";

const cluster = {
  platform: "kubernetes",
  namespace: "models",
  images: { registry: "registry.example.org/engine-room" },
  engineStore: { storageClass: "nfs", sizeGiB: 200 },
  pools: [
    { name: "gpu", instanceType: "g5.12xlarge", hourlyUsd: 5 },
    { name: "cpu", machine: { vcpus: 8, memoryGiB: 32 } },
  ],
  models: [{ name: "gpt", model: "gpt2-medium" }],
};

const onAws = {
  platform: "aws",
  account: "111122223333",
  region: "us-east-1",
  retain: ["demo"],
  access: { apiCidrs: ["203.0.113.7/32"] },
  namespace: "models",
  databases: "container",
  pools: [
    { name: "gpu", instanceType: "g5.12xlarge", nodes: { min: 0, max: 1 } },
    { name: "cpu", instanceType: "m7i.2xlarge" },
  ],
  models: [{ name: "gpt", model: "gpt2-medium" }],
};

/** Words of the report in one line. */
const words = (diff: StackDiff) => textReport(diff).replaceAll(/\s+/g, " ");

/** @param lines - Lines before the configuration. */
const textOf = (values: object, lines = "") => `${lines}${stackFileText({ ...values })}`;

async function reportOf(before: string, after: string): Promise<string> {
  const text = words(await diffOfFiles(before, after));
  expect(text).not.toContain("nothing changes");
  return text;
}

test("a policy that is switched off is first in a report, and is enforced at its former level", async () => {
  const off = {
    ...cluster,
    policies: { levels: { "image-has-digest": "off", "gpu-pod-has-limits": "advisory" } },
  };
  const diff = await diffOfFiles(textOf(cluster), textOf(off));
  expect(words(diff)).toMatch(
    /no cloud was asked\. No longer protected - policy gpu-pod-has-limits: mandatory → advisory.* - policy image-has-digest: mandatory → off/,
  );
  expect(diff.violations.filter(({ policy }) => policy === "image-has-digest")).not.toEqual([]);
  const lost = { ...onAws, retain: [], policies: { levels: { "engine-store-is-protected": "off" } } };
  const broken = newMandatory(await diffOfFiles(textOf(onAws), textOf(lost)));
  expect(broken.map(({ policy }) => policy)).toContain("engine-store-is-protected");
  const stricter = await diffOfFiles(textOf(off), textOf(cluster));
  expect(words(stricter)).not.toContain("No longer protected");
  expect(stricter.violations.some(({ isNew }) => isNew)).toBe(false);
});

test("levels, cap and `retain` of a base are enforced even when this version can't read the rest of its file", async () => {
  const earlier = (values: object) => textOf({ ...values, formerKey: 1 });
  const off = { levels: { "image-has-digest": "off", "engine-store-is-protected": "off" }, hourlyUsdCap: 60 };
  const diff = await diffOfFiles(
    earlier({ ...onAws, policies: { hourlyUsdCap: 0.5, levels: { "image-has-digest": "advisory" } } }),
    textOf({ ...onAws, retain: [], policies: off }),
  );
  expect(diff.base.problems).toMatchObject([{ path: "formerKey" }]);
  expect(diff.levels).toEqual([
    { policy: "engine-store-is-protected", before: "mandatory", after: "off" },
    { policy: "image-has-digest", before: "advisory", after: "off" },
  ]);
  const judged = diff.violations.filter(({ level }) => level === "mandatory").map(({ policy }) => policy);
  expect(new Set(judged)).toEqual(new Set(["engine-store-is-protected", "price-is-below-cap"]));
  expect(refusals(diff)).not.toEqual([]);
});

test("a base whose policies can't be read is enforced at the levels of its kind of stack", async () => {
  const head = { ...cluster, policies: { levels: { "image-has-digest": "off" } } };
  const diff = await diffOfFiles(textOf({ ...cluster, policies: "none" }), textOf(head));
  expect(diff.levels).toEqual([{ policy: "image-has-digest", before: "mandatory", after: "off" }]);
  expect(words(diff)).toContain("No longer protected - policy image-has-digest: mandatory → off");
});

test("a raised or removed cap is reported, and the lower cap is enforced", async () => {
  const capped = (hourlyUsdCap: number) => ({ ...cluster, policies: { hourlyUsdCap } });
  const diff = await diffOfFiles(
    textOf(capped(6)),
    textOf({ ...capped(60), pools: [{ ...cluster.pools[0], hourlyUsd: 7 }, cluster.pools[1]] }),
  );
  expect(words(diff)).toContain(
    "No longer protected - cap of an hour (policies.hourlyUsdCap): $6.000 → $60.000",
  );
  expect(newMandatory(diff)).toMatchObject([
    { policy: "price-is-below-cap", reason: expect.stringContaining("its cap is 6.00 USD") },
  ]);
  expect(await reportOf(textOf(capped(6)), textOf(cluster))).toContain("$6.000 → no cap");
  expect(await reportOf(textOf(capped(60)), textOf(capped(6)))).not.toContain("No longer protected");
});

test("a stack file that is not YAML is only a problem, which the jobs read", async () => {
  const diff = await diffOfFiles(textOf(onAws), `${textOf(onAws)}  engine-room:region: us-east-1\n`);
  expect(diff.head.problems).toMatchObject([{ reason: expect.stringContaining("a key is there twice") }]);
  expect([diff.settings, diff.secrets]).toEqual([[], []]);
  expect(parsedDiff("diff.json", Buffer.from(JSON.stringify(diff)))).toEqual(diff);
});

test("the verdict counts lost protections and granted access", async () => {
  const admins = ["arn:aws:iam::111122223333:role/a", "arn:aws:iam::111122223333:role/b"];
  const changed = {
    ...onAws,
    access: { ...onAws.access, admins },
    policies: { levels: { "image-has-digest": "off" } },
  };
  expect(await reportOf(textOf(onAws), textOf(changed))).toMatch(
    /^Stack demo: [^;]*; 1 protection gone; 2 changes of access; /,
  );
});

test("a stack that `retain` no longer names is reported with the lost protections of its resources", async () => {
  const text = await reportOf(textOf(onAws), textOf({ ...onAws, retain: [] }));
  expect(text).toMatch(
    /No longer protected - retain no longer names demo.* - protect is gone of \d+ resources: .*Cluster/,
  );
  expect(text).toMatch(/retainOnDelete is gone of \d+ resources?: .*FileSystem engine-store/);
  const back = await reportOf(textOf({ ...onAws, retain: [] }), textOf(onAws));
  expect(back).not.toContain("No longer protected");
});

test("another provider of secrets, another account and another cluster are reported without their keys", async () => {
  const before = "secretsprovider: awskms://alias/one\nencryptedkey: a2V5IG9uZQ==\n";
  const after = "secretsprovider: passphrase\nencryptionsalt: v1:canarysalt=\n";
  const text = await reportOf(
    `${before}${textOf(cluster)}  aws:profile: reader\n`,
    `${after}${textOf(cluster)}  aws:profile: admin\n  aws:secretKey: canarykey\n  kubernetes:kubeconfig: "{canary: 1}"\n`,
  );
  for (const words of [
    'aws:profile: "reader" → "admin"',
    "aws:secretKey: added",
    "kubernetes:kubeconfig: added",
    "secretsprovider: changed",
    "encryptionsalt: added",
    "encryptedkey: removed",
  ])
    expect(text).toContain(words);
  expect(text).not.toContain("canary");
});

describe("changed keys", () => {
  test("a key that no resource shows is in the report", async () => {
    const pools = [{ ...cluster.pools[0], hourlyUsd: 6 }, cluster.pools[1]];
    const text = await reportOf(textOf(cluster), textOf({ ...cluster, pools }));
    expect(text).toContain("no resource changes");
    expect(text).toContain("Changed keys of the stack file - pools[gpu].hourlyUsd: 5 → 6");
  });

  test("a check that is switched off is no longer protected", async () => {
    const text = await reportOf(textOf(cluster), textOf({ ...cluster, acceptUnverified: true }));
    expect(text).toContain("No longer protected - acceptUnverified: absent → true");
  });

  test("elements of lists have their names", async () => {
    const models = [{ name: "gpt", model: "gpt2-medium", limits: { maxBatchSize: 2 } }];
    expect((await diffOfFiles(textOf(cluster), textOf({ ...cluster, models }))).settings).toEqual([
      { path: "models[gpt].limits", kind: "add", after: '{"maxBatchSize":2}' },
    ]);
  });

  test("a key that no schema has is shown without its value, at any path", async () => {
    const { models, ...others } = cluster;
    const diff = await diffOfFiles(
      textOf(others),
      textOf({
        ...others,
        foo: { colour: "canary", passphrase: "canary" },
        gateway: { tls: { privateKey: "canary" }, hostname: "a.example.org" },
        models: models.map((model) => ({ ...model, HF_TOKEN: "canary", colour: "canary" })),
      }),
    );
    expect(JSON.stringify(diff.settings)).not.toContain("canary");
    expect(diff.settings).toContainEqual({ path: "foo", kind: "add" });
    expect(JSON.stringify(diff.settings)).toContain("gpt2-medium");
  });

  test("a possible secret is shown without its value", async () => {
    const hub = (token: string) => ({ ...cluster, hub: { token } });
    const diff = await diffOfFiles(textOf(hub("hf_canaryone11111111")), textOf(hub("hf_canarytwo22222222")));
    expect([diff.settings, diff.secrets.length]).toEqual([[], 1]);
    const added = await diffOfFiles(textOf(cluster), textOf(hub("hf_canaryone11111111")));
    expect(JSON.stringify(added)).not.toContain("canary");
  });
});

test("access that a program grants is shown, even when the stack file has the same principal in other lists", async () => {
  const principal = "arn:aws:iam::999988887777:role/contractor";
  const diff = await diffOfFiles(
    textOf(onAws),
    textOf({ ...onAws, access: { ...onAws.access, admins: [principal] } }),
  );
  const entry = diff.resources?.find(({ type }) => type === "aws:eks/accessEntry:AccessEntry");
  expect(entry?.after?.principalArn).toBe(principal);
  const shown = (path: string, kind: "add" | "delete") =>
    accessSection({ ...diff, settings: [{ path, kind }] }).entries.length;
  // The change of the stack file shows it.
  expect(shown(`access.admins[${principal}]`, "add")).toBe(1);
  const granted = accessSection({ ...diff, settings: [] }).entries.length;
  expect(granted).toBeGreaterThan(0);
  expect(shown(`access.viewers[${principal}]`, "delete")).toBe(granted + 1);
  expect(shown(`pools[${principal}]`, "delete")).toBe(granted);
});
