import { describe, expect, test } from "vitest";
import { parseConfig } from "../../../infra/config/config.ts";
import { awsValues } from "../plan/checks/stacks.ts";
import { problemsThrownBy } from "../problems-thrown.ts";

const problemsOf = (changes: object) =>
  problemsThrownBy(() => parseConfig({ ...awsValues, ...changes })).map(({ path, reason }) => [path, reason]);

describe("the ARN of the hub's secret", () => {
  const inSecrets = (secret: string) => ({
    hub: { tokenSecretArn: `arn:aws:secretsmanager:us-east-1:111122223333:secret:${secret}` },
  });

  test.each([
    "hub-token",
    "hub-token-",
    "hub-token-AbCdE",
    "hub-token-AbCdEfG",
    "hub-token-AbCd_f",
    "AbCdEf",
  ])("is a problem without what AWS ends it with: %s", (secret) => {
    expect(problemsOf(inSecrets(secret))).toEqual([
      [
        "hub.tokenSecretArn",
        "It must be the ARN of a secret with the hyphen and the six characters that AWS ends it with.",
      ],
    ]);
  });

  test.each(["hub-token-AbCdEf", "team/hub.token-Ab12Ef"])("is whole: %s", (secret) => {
    expect(() => parseConfig({ ...awsValues, ...inSecrets(secret) })).not.toThrow();
  });
});

describe("an administrator of the cluster", () => {
  const inIam = (resource: string, account = "111122223333") => ({
    access: { apiCidrs: ["203.0.113.7/32"], admins: [`arn:aws:iam::${account}:${resource}`] },
  });

  test.each(["root", "policy/admins", "group/admins", "role/", "roles/team", "instance-profile/team"])(
    "is neither user nor role: %s",
    (resource) => {
      expect(problemsOf(inIam(resource))).toEqual([
        ["access.admins[0]", "It must be the ARN of an IAM user or of an IAM role."],
      ]);
    },
  );

  test.each(["role/team", "role/of/a/path/team", "user/me@example.org"])("is %s", (resource) => {
    expect(() => parseConfig({ ...awsValues, ...inIam(resource) })).not.toThrow();
  });
});
