/** Preflight of a stack on AWS: certificate, token of the model hub, and gated models. */
import { describe, expect, test } from "vitest";
import { ACCOUNT, REGION } from "../../../harness/aws/stacks.ts";
import { CERTIFICATE, certificateOf, HUB_SECRET } from "../account.ts";
import { eks, found, useWorld, type Values, world } from "./world.ts";

useWorld();

const gated: Values = {
  ...eks,
  hub: { tokenSecretArn: HUB_SECRET },
  pools: [
    { name: "gpu", instanceType: "g5.4xlarge" },
    { name: "cpu", instanceType: "m7i.xlarge" },
  ],
  models: [{ name: "chat", model: "llama-2-7b-chat", limits: { maxBatchSize: 1 } }],
};
const publicGateway: Values = {
  ...eks,
  gateway: {
    exposure: "public",
    hostname: "models.example.org",
    tls: { certificateArn: CERTIFICATE },
    apiKeys: [{ name: "one", sha256: "0".repeat(64) }],
  },
};

describe("certificate", () => {
  test.each([
    ["issued, by a star", certificateOf("ISSUED", ["*.example.org"]), []],
    [
      "issued, for a deeper name",
      certificateOf("ISSUED", ["*.a.example.org"]),
      ["not for models.example.org"],
    ],
  ])("%s", async (_, answer, words) => {
    const findings = await found({ "acm:DescribeCertificate": () => answer }, publicGateway);
    expect(findings).toHaveLength(words.length);
    for (const [index, word] of words.entries()) expect(findings[index]?.what).toContain(word);
  });
});

describe("gated models", () => {
  test("are asked for with the secret's token, which is in no finding", async () => {
    world.hubStatus = 403;
    const findings = await found({}, gated);
    expect(world.hubAsked).toHaveLength(1);
    expect(world.hubAsked[0]?.authorization).toBe("Bearer hf_the-token");
    expect(world.hubAsked[0]?.path).toMatch(
      /^\/meta-llama\/Llama-2-7b-chat-hf\/resolve\/[0-9a-f]{40}\/config\.json$/,
    );
    expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["problem", "hub"]]);
    expect(JSON.stringify(findings)).not.toContain("hf_the-token");
  });

  test("that the hub gives are no finding", async () => {
    expect(await found({}, gated)).toEqual([]);
  });
});

test("a secret that is encrypted by a key of one's own is a problem", async () => {
  const by = (KmsKeyId: string) => ({
    "secretsmanager:DescribeSecret": () => ({ json: { ARN: HUB_SECRET, KmsKeyId } }),
  });
  const key = `arn:aws:kms:${REGION}:${ACCOUNT}:key/12345678-1234-1234-1234-123456789012`;
  const findings = await found(by(key), gated);
  expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["problem", "hubToken"]]);
  expect(findings[0]?.why).toContain(key);
  await world.aws?.close();
  expect(await found(by("alias/aws/secretsmanager"), gated)).toEqual([]);
});

// "secret" has six letters: no pattern tells it from the end that AWS gives.
test("a part of a secret's ARN is a problem, which has all of it: roles may read what is written", async () => {
  const part = HUB_SECRET.replace("hub-token-AbCdEf", "hub-secret");
  const findings = await found(
    { "secretsmanager:DescribeSecret": () => ({ json: { ARN: `${part}-AbCdEf` } }) },
    { ...gated, hub: { tokenSecretArn: part } },
  );
  expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["problem", "hubToken"]]);
  expect(findings[0]?.fix).toBe(`Write \`tokenSecretArn: ${part}-AbCdEf\`.`);
});
