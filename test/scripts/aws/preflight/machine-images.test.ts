import { expect, test } from "vitest";
import { POOL_LABEL } from "../../../../infra/plan/aws/context.ts";
import type { Answers } from "../account.ts";
import { eks, found, useWorld } from "./account-fixture.ts";

useWorld();

const OLD = "1.36.0-20260801";
const NEW = "1.36.0-20260915";

/** A cluster whose pools have these releases. @param newest - By variant of the image. */
const cluster = (
  releases: Readonly<Record<string, string>>,
  newest: Readonly<Record<string, string>>,
): Answers => ({
  "eks:ListNodegroups": () => ({ json: { nodegroups: Object.keys(releases).map((pool) => `${pool}-1`) } }),
  "eks:DescribeNodegroup": ({ path }) => {
    const pool = /node-groups\/([a-z]+)-1/.exec(path)?.[1] ?? "";
    const releaseVersion = releases[pool];
    return { json: { nodegroup: { status: "ACTIVE", labels: { [POOL_LABEL]: pool }, releaseVersion } } };
  },
  "ssm:GetParameter": ({ body }) => {
    const [, version, variant = ""] =
      /optimized-ami\/([\d.]+)\/amazon-linux-2023\/x86_64\/(\w+)\/recommended\/release_version$/.exec(
        String(body.Name),
      ) ?? [];
    expect(version).toBe("1.36");
    return { json: { Parameter: { Value: newest[variant] } } };
  },
});

test("machines with an older image than AWS has are a warning with the key that renews them", async () => {
  const findings = await found(cluster({ system: NEW, gpu: OLD, cpu: NEW }, { standard: NEW, nvidia: NEW }));
  expect(findings.map(({ severity, what }) => [severity, what])).toEqual([
    ["warning", `Machines of the pool gpu have the image release ${OLD}, and AWS has ${NEW}.`],
  ]);
  expect(findings[0]?.fix).toContain(`machineImageRelease: ${NEW}`);
});

test("a release that the stack file names already is `up`'s to install", async () => {
  const [finding] = await found(cluster({ gpu: OLD }, { nvidia: NEW }), {
    ...eks,
    cluster: { machineImageRelease: NEW },
  });
  expect(finding?.fix).toBe("`npx engine-room up --stack dev` renews them, a machine at a time.");
});

test("machines with the newest image have no finding", async () => {
  expect(await found(cluster({ system: NEW, gpu: NEW }, { standard: NEW, nvidia: NEW }))).toEqual([]);
});
