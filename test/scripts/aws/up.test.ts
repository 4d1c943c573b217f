import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ConfigError } from "../../../infra/problems.ts";
import { unreachedReason } from "../../../scripts/aws/api-access.ts";
import { projectRoot, stackReference } from "../../../scripts/program/stack-file.ts";
import { readAwsTarget } from "../../../scripts/program/targets.ts";
import { openStack } from "../../../scripts/stack/backend.ts";
import { stackPaths } from "../../../scripts/stack/stack-paths.ts";
import { imageLock } from "../../harness/image-lock.ts";
import { type FakePulumi, useFakePulumi } from "../stack/fake-pulumi.ts";
import { type Answers, account } from "./account.ts";
import { type FakeAws, startFakeAws, stubCredentials } from "./fake-aws.ts";

describe("through the Pulumi CLI", () => {
  const NAME = "aws-up-test";
  const stack = { ...stackReference(NAME), configFile: join(projectRoot, "Pulumi.dev.yaml") };
  let folder: string;
  let lockFile: string;
  let pulumi: FakePulumi;
  let done: string[];
  let seen: number;
  let aws: FakeAws;
  let answers: Record<string, Answers[string]>;
  /** Changes of a cluster that EKS was asked for. */
  let asked: unknown[];

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-aws-up-"));
    lockFile = join(folder, "images.lock.json");
    pulumi = useFakePulumi(folder);
    done = [];
    seen = 0;
    asked = [];
    answers = {
      "eks:ListNodegroups": () => ({ json: { nodegroups: ["gpu-1"] } }),
      "eks:DescribeNodegroup": () => ({
        json: {
          nodegroup: {
            status: "ACTIVE",
            labels: { "engine-room/pool": "gpu" },
            instanceTypes: ["g5.xlarge"],
            scalingConfig: { minSize: 0, maxSize: 4, desiredSize: 3 },
          },
        },
      }),
    };
    aws = await startFakeAws((action, input) => {
      done.push(...newCalls());
      if (/^eks:(Update|DescribeUpdate)/.test(action)) done.push(action);
      return account(answers)(action, input);
    });
    stubCredentials();
    vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
    vi.stubEnv("ENGINE_ROOM_IMAGE_LOCK", lockFile);
    vi.stubEnv("PULUMI_BACKEND_URL", "s3://room-state/pulumi");
    vi.stubEnv("ENGINE_ROOM_RUNNER", "");
    vi.stubEnv("CI", "true");
  });
  afterEach(async () => {
    await aws.close();
    rmSync(folder, { recursive: true, maxRetries: 5 });
    rmSync(stackPaths(NAME).directory, { recursive: true, force: true, maxRetries: 5 });
  });

  /** Calls of the Pulumi CLI since the last request to AWS. */
  const newCalls = () => {
    const all = pulumi.calls().slice(seen);
    seen += all.length;
    return all.map(({ args: [command, ...words] }) =>
      ["pulumi", command, ...(command === "state" ? words.slice(0, 2) : [])].join(" "),
    );
  };

  describe("with the images pushed", () => {
    beforeEach(() => writeFileSync(lockFile, imageLock(readAwsTarget(stack).plan)));

    /** Calls that change resources, in order. */
    const changes = () => [...done, ...newCalls()].filter((call) => /^pulumi (up|state)|^eks:/.test(call));

    test("`up` ends before any change when an image was not pushed", async () => {
      writeFileSync(lockFile, JSON.stringify({ version: 1, images: {} }));
      await expect((await openStack(stack)).up()).rejects.toThrow(ConfigError);
      expect(changes()).toEqual([]);
    });

    /** An existing cluster that accepts another list of networks. */
    const clusterOpenTo = (cidr: string, status = "Successful"): Record<string, Answers[string]> => ({
      "eks:DescribeCluster": () => ({
        json: {
          cluster: {
            status: "ACTIVE",
            resourcesVpcConfig: { endpointPublicAccess: true, publicAccessCidrs: [cidr] },
          },
        },
      }),
      "eks:UpdateClusterConfig": ({ body }) => {
        asked.push(body.resourcesVpcConfig);
        return { json: { update: { id: "u-1", status: "InProgress" } } };
      },
      "eks:DescribeUpdate": () => ({
        json: {
          update: {
            id: "u-1",
            status,
            errors: [{ errorCode: "SubnetNotFound", errorMessage: "It has none." }],
          },
        },
      }),
    });
    const opened = ["eks:UpdateClusterConfig", "eks:DescribeUpdate"];

    test("`up` opens the cluster's API to the networks of the stack file before Pulumi reads the cluster", async () => {
      Object.assign(answers, clusterOpenTo("198.51.100.7/32"));
      await (await openStack(stack)).up();
      expect(changes()).toEqual([...opened, "pulumi up"]);
      expect(asked).toEqual([
        {
          endpointPrivateAccess: true,
          endpointPublicAccess: true,
          publicAccessCidrs: ["203.0.113.7/32"],
        },
      ]);
    });

    test("`up` does not change an API that is open to the networks of the stack file", async () => {
      Object.assign(answers, clusterOpenTo("203.0.113.7/32"));
      await (await openStack(stack)).up();
      expect(changes()).toEqual(["pulumi up"]);
    });

    test("`down` opens the cluster's API before Pulumi deletes objects in the cluster", async () => {
      Object.assign(answers, clusterOpenTo("198.51.100.7/32"));
      pulumi.keep([NAME]);
      await (await openStack(stack)).down();
      const calls = [...done, ...newCalls()].filter((call) => /^pulumi destroy|^eks:/.test(call));
      expect(calls).toEqual([...opened, "pulumi destroy"]);
    });

    test("`up` ends with EKS' reasons if it does not open the API", async () => {
      Object.assign(answers, clusterOpenTo("198.51.100.7/32", "Failed"));
      await expect((await openStack(stack)).up()).rejects.toThrow(
        "EKS did not open the API of engine-room-aws-up-test (Failed): SubnetNotFound: It has none.",
      );
      expect(changes()).toEqual(opened);
    });
  });
});

describe("an API of a cluster that does not respond", () => {
  const networks = { vpcId: "vpc-1", endpointPublicAccess: true, publicAccessCidrs: ["198.51.100.7/32"] };

  afterEach(() => vi.unstubAllEnvs());

  test("the reason names the networks that may reach it", async () => {
    for (const proxy of ["HTTPS_PROXY", "https_proxy"]) vi.stubEnv(proxy, undefined);
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const cluster = {
      name: "engine-room-dev",
      endpoint: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
      resourcesVpcConfig: networks,
    };
    expect(await unreachedReason(cluster)).toBeUndefined();
    server.close();
    await once(server, "close");
    expect(await unreachedReason(cluster)).toMatch(
      /^The API of engine-room-dev does not answer here: from the internet it answers only 198\.51\.100\.7\/32\./,
    );
    const resourcesVpcConfig = { ...networks, endpointPublicAccess: false };
    expect(await unreachedReason({ ...cluster, resourcesVpcConfig })).toMatch(/it answers only vpc-1,/);
  });
});
