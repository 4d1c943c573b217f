/** Preflight of a stack on AWS: the cluster, who may administer it, and what no other stack needs. */
import { describe, expect, test } from "vitest";
import { isPrincipal } from "../../../../scripts/preflight/aws-access.ts";
import { checkTable } from "../../../../scripts/preflight/finding.ts";
import { ACCOUNT, EC2_STACK } from "../../../harness/aws/stacks.ts";
import type { Answers } from "../account.ts";
import { xmlAnswer } from "../fake-aws.ts";
import { eks, found, MACHINES, NEEDS, preflight, useWorld, world } from "./world.ts";

useWorld();

describe("the cluster", () => {
  test.each([
    ["EXTENDED_SUPPORT", "warning"],
    ["UNSUPPORTED", "problem"],
  ])("a version of Kubernetes that is %s: a %s", async (versionStatus, severity) => {
    const findings = await found({
      "eks:DescribeClusterVersions": () => ({
        json: { clusterVersions: [{ clusterVersion: "1.35", versionStatus }] },
      }),
    });
    expect(findings.map((one) => [one.severity, one.check])).toEqual([[severity, "kubernetesVersion"]]);
  });

  test("an add-on that EKS does not install is a problem, with the newest that it has", async () => {
    const addOnVersions = ["v1.9.0-eksbuild.1", "v1.10.0-eksbuild.2", "v1.10.0-eksbuild.1"];
    const findings = await found({
      "eks:DescribeAddonVersions": () => ({
        json: {
          addons: [{ addonVersions: addOnVersions.map((addonVersion) => ({ addonVersion })) }],
        },
      }),
    });
    expect(findings.map(({ what }) => what)).toEqual(["EKS does not install coredns v1.0.0-eksbuild.1."]);
    expect(findings[0]?.why).toContain("v1.10.0-eksbuild.2 is the newest");
  });

  describe("what an add-on is set to", () => {
    /** In the draft, and with the words, of EKS' own. */
    const SCHEMA = {
      $ref: "#/definitions/Coredns",
      $schema: "http://json-schema.org/draft-06/schema#",
      definitions: {
        Coredns: {
          additionalProperties: false,
          properties: {
            nodeSelector: { additionalProperties: { type: "string" }, type: "object" },
            controller: {
              additionalProperties: false,
              properties: { replicas: { type: "integer" } },
              type: "object",
            },
          },
          title: "Coredns",
          type: "object",
        },
      },
    };
    const setTo = (configuration: Readonly<Record<string, unknown>>, schema = JSON.stringify(SCHEMA)) =>
      found({ "eks:DescribeAddonConfiguration": () => ({ json: { configurationSchema: schema } }) }, eks, {
        ...NEEDS,
        addOns: NEEDS.addOns.map((one) => ({ ...one, configuration })),
      });

    test("is no finding where EKS' schema has it", async () => {
      expect(await setTo({ nodeSelector: { pool: "system" } })).toEqual([]);
    });
    test.each([
      [{ nodeSelectors: {} }, "At the top", "nodeSelectors"],
      [{ controller: { nodeSelector: {} } }, "controller", "nodeSelector"],
      [{ nodeSelector: { pool: 1 } }, "nodeSelector.pool", "string"],
    ])("is a problem where it has not: %j", async (configuration, where, word) => {
      const findings = await setTo(configuration);
      expect(findings.map(({ severity, what }) => [severity, what])).toEqual([
        ["problem", "EKS does not take what coredns v1.0.0-eksbuild.1 is set to."],
      ]);
      expect(findings[0]?.why).toContain(`${where}: `);
      expect(findings[0]?.why).toContain(word);
    });
    test.each(["", '{"$ref": "#/elsewhere"}'])(
      "is a warning where the schema is not to be read: %s",
      async (schema) => {
        const findings = await setTo({}, schema);
        expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["warning", "addOns"]]);
      },
    );
    test("is not asked for where EKS does not install the version", async () => {
      const findings = await found({ "eks:DescribeAddonVersions": () => ({ json: { addons: [] } }) }, eks, {
        ...NEEDS,
        addOns: NEEDS.addOns.map((one) => ({ ...one, configuration: {} })),
      });
      expect(findings.map(({ what }) => what)).toEqual(["EKS does not install coredns v1.0.0-eksbuild.1."]);
    });
  });
});

test("repositories of another registry are not asked about", async () => {
  await found({}, { ...eks, images: { registry: "registry.example.org/room" } });
  expect(world.aws?.asked).not.toContain("ecr:DescribeRepositories");
});

describe("administrators", () => {
  test("who are others than who asks are no finding", async () => {
    const admins = [`arn:aws:iam::${ACCOUNT}:user/you`];
    expect(await found({}, { ...eks, access: { apiCidrs: ["1.2.3.4/32"], admins } })).toEqual([]);
  });

  describe("of a cluster that is there", () => {
    const [made, joined, own, none] = ["role/maker", "user/joined", "role/of/a/path/own", "role/none"].map(
      (resource) => `arn:aws:iam::${ACCOUNT}:${resource}`,
    );
    const admins = { ...eks, access: { apiCidrs: ["1.2.3.4/32"], admins: [made, joined, own, none] } };
    const tagsOf: Readonly<Record<string, object>> = {
      "role/maker": {},
      "user/joined": { "engine-room:stack": "prod" },
      "role/of/a/path/own": { "engine-room:stack": "dev" },
    };
    const there: Answers = {
      "eks:DescribeCluster": () => ({ json: { cluster: { status: "ACTIVE" } } }),
      "ec2:DescribeSubnets": () => xmlAnswer("DescribeSubnets", { subnetSet: [] }),
      "eks:DescribeAccessEntry": ({ path }) => {
        const [, resource = ""] = decodeURIComponent(path).split(`::${ACCOUNT}:`);
        const tags = tagsOf[resource];
        return tags === undefined
          ? { error: "ResourceNotFoundException", status: 404 }
          : { json: { accessEntry: { tags } } };
      },
    };
    const ofAccess = async (changes: Answers) =>
      (await found(changes, admins)).filter(({ check }) => check === "access");

    test("have no entry yet, or the stack's: EKS would refuse a second one", async () => {
      const findings = await ofAccess(there);
      expect(findings.map(({ severity, what }) => [severity, what])).toEqual(
        [made, joined].map((admin) => [
          "problem",
          `${admin} has an access entry of the cluster engine-room-dev that is not the stack's.`,
        ]),
      );
      expect(findings[1]?.fix).toContain(`--principal-arn ${joined}`);
    });

    test("are one warning where nobody may ask", async () => {
      const denied = () => ({ error: "AccessDeniedException", status: 403 }) as const;
      const findings = await ofAccess({ ...there, "eks:DescribeAccessEntry": denied });
      expect(findings.map(({ severity, what }) => [severity, what])).toEqual([
        ["warning", "Your credentials may not ask eks:DescribeAccessEntry."],
      ]);
    });
  });

  test.each([
    ["role/team", "assumed-role/team/session", true],
    ["role/aws-reserved/sso.amazonaws.com/Admin_1", "assumed-role/Admin_1/me@example.org", true],
    ["role/team", "assumed-role/team-two/session", false],
    ["user/team", "assumed-role/team/session", false],
  ])("%s and a session of %s: %s", (principal, session, isSame) => {
    expect(isPrincipal(`arn:aws:iam::${ACCOUNT}:${principal}`, `arn:aws:sts::${ACCOUNT}:${session}`)).toBe(
      isSame,
    );
  });

  test("a session of a role of the same name in another account is another one", () => {
    const session = "arn:aws:sts::999900001111:assumed-role/team/session";
    expect(isPrincipal(`arn:aws:iam::${ACCOUNT}:role/team`, session)).toBe(false);
  });
});

test("an address for examples is a problem where a cluster would answer it", async () => {
  const findings = await found({}, { ...eks, access: { apiCidrs: ["203.0.113.7/32"] } });
  expect(findings.map(({ severity, check }) => [severity, check])).toEqual([["problem", "access"]]);
  expect(findings[0]?.why).toContain("203.0.113.0/24");
});

test("what a stack does not have is not needed, rather than as it should be", async () => {
  const checks = await preflight({}, EC2_STACK, { machines: MACHINES.slice(0, 1), addOns: [] });
  const table = checkTable(checks);
  for (const looksAt of [
    "administrators of the cluster",
    "addresses that reach the cluster's API",
    "capacity reservations",
    "certificate",
    "version of Kubernetes",
    "add-ons of the cluster",
  ])
    expect(table).toMatch(new RegExp(`^${looksAt} +not needed$`, "m"));
  expect(table).toMatch(/^zones of the network +ok$/m);
});
