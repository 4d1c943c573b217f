import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { AwsPlan, EksPlan } from "../../../infra/plan/gpu-stack.ts";
import { ConfigError } from "../../../infra/problems.ts";
import { readyMachines } from "../../../scripts/aws/machine.ts";
import { changePools, plannedSize, sizePools } from "../../../scripts/aws/pools.ts";
import { projectRoot, readStackFile, stackReference } from "../../../scripts/program/stack-file.ts";
import { type AwsTarget, awsTarget, readAwsTarget } from "../../../scripts/program/targets.ts";
import { renderStack } from "../../../scripts/render.ts";
import { openStack } from "../../../scripts/stack/backend.ts";
import { stackPaths } from "../../../scripts/stack/stack-paths.ts";
import { imageLock } from "../../harness/aws/image-lock.ts";
import { EKS_STACK } from "../../harness/aws/stacks.ts";
import { writtenStackFile } from "../../harness/stack-files.ts";
import { runCommand } from "../plan/run-plan.ts";
import { type FakePulumi, useFakePulumi } from "../stack/fake-pulumi.ts";
import { type Answers, account } from "./account.ts";
import { type FakeAws, type FakeInput, startFakeAws, stubCredentials } from "./fake-aws.ts";

describe("sizes of EKS pools", () => {
  interface Size {
    min: number;
    max: number;
    desired: number;
  }

  const planOf = (gpu: object) =>
    checkedPlan({
      ...EKS_STACK,
      pools: [
        { name: "gpu", instanceType: "g5.xlarge", ...gpu },
        { name: "cpu", instanceType: "m7i.xlarge" },
      ],
    }).plan as EksPlan;

  interface Group {
    /** One after the other, the last one again and again. @default ["ACTIVE"] */
    readonly statuses?: string[];
    readonly instanceType?: string;
    /** Of a list that has it, and of no answer. */
    readonly isGone?: boolean;
  }

  const TYPES: Readonly<Record<string, string>> = {
    gpu: "g5.xlarge",
    cpu: "m7i.xlarge",
    system: "m7i.large",
  };

  /**
   * A cluster whose node groups have these sizes. EKS keeps what it isn't told, and refuses what does not fit.
   *
   * @param statuses - Of an update, as those of a group. @param groups - What differs from a group that is ACTIVE.
   */
  function cluster(
    sizes: Record<string, Size>,
    statuses: string[] = [],
    groups: Readonly<Record<string, Group>> = {},
  ): Answers {
    const statusOf = (name: string) => groups[name]?.statuses?.[0] ?? "ACTIVE";
    const nameOf = ({ path }: FakeInput) => /node-groups\/([^/]+)/.exec(path)?.[1] ?? "";
    return {
      "eks:ListNodegroups": () => ({ json: { nodegroups: Object.keys(sizes) } }),
      "eks:DescribeNodegroup": (input) => {
        const name = nameOf(input);
        const { min, max, desired } = sizes[name] as Size;
        const { statuses: left = [], instanceType, isGone } = groups[name] ?? {};
        if (isGone === true) return { error: "ResourceNotFoundException", status: 404 };
        const pool = name.replace(/-\d+$/, "");
        const nodegroup = {
          status: statusOf(name),
          labels: { "engine-room/pool": pool },
          instanceTypes: [instanceType ?? TYPES[pool]],
          scalingConfig: { minSize: min, maxSize: max, desiredSize: desired },
        };
        if (left.length > 1) left.shift();
        return { json: { nodegroup } };
      },
      "eks:UpdateNodegroupConfig": (input) => {
        if (!["ACTIVE", "DEGRADED"].includes(statusOf(nameOf(input))))
          return { error: "ResourceInUseException", status: 409 };
        const before = sizes[nameOf(input)] as Size;
        const { minSize, maxSize, desiredSize } = input.body.scalingConfig as Record<string, number>;
        const size = {
          min: minSize ?? before.min,
          max: maxSize ?? before.max,
          desired: desiredSize ?? before.desired,
        };
        if (size.min > size.desired || size.desired > size.max) return { error: "InvalidParameterException" };
        sizes[nameOf(input)] = size;
        return { json: { update: { id: "update-1", status: "InProgress" } } };
      },
      "eks:DescribeUpdate": () => ({ json: { update: { status: statuses.shift() ?? "Successful" } } }),
    };
  }

  /** All of whose images are pushed. */
  const targetOf = (gpu: object): AwsTarget => ({ ...awsTarget(planOf(gpu), "dev"), imageProblems: [] });

  const SYSTEM = { min: 2, max: 4, desired: 2 };

  const ONE = { min: 1, max: 1, desired: 1 };

  let aws: FakeAws | undefined;

  beforeEach(() => {
    stubCredentials();
  });

  afterEach(async () => {
    await aws?.close();
  });

  async function use(answers: Answers): Promise<void> {
    aws = await startFakeAws(account(answers));
    vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
  }

  const changes = () => aws?.asked.filter((action) => action === "eks:UpdateNodegroupConfig").length;

  test("`up` starts the machines that a raised least number of a pool asks for", async () => {
    const sizes = { "gpu-1": { min: 0, max: 2, desired: 0 }, "cpu-1": ONE, "system-1": SYSTEM };
    await use(cluster(sizes));
    const lines = await readyMachines(targetOf({ nodes: { min: 0, max: 2 }, warm: 1 }));
    expect(sizes["gpu-1"]).toEqual({ min: 1, max: 2, desired: 1 });
    expect(lines).toEqual([
      "Pool gpu: 0 to 2 machines with 0 wanted before, 1 to 2 machines with 1 wanted now",
    ]);
    expect(changes()).toBe(1);
  });

  test("`up` keeps the running machines where a pool's largest number was raised", async () => {
    const sizes = { "gpu-1": { min: 0, max: 4, desired: 4 } };
    await use(cluster(sizes));
    await readyMachines(targetOf({ nodes: { min: 0, max: 6 } }));
    expect(sizes["gpu-1"]).toEqual({ min: 0, max: 6, desired: 4 });
  });

  test("`up` ends the machines above a pool's lowered largest number", async () => {
    const sizes = { "gpu-1": { min: 0, max: 4, desired: 4 } };
    await use(cluster(sizes));
    await readyMachines(targetOf({ nodes: { min: 0, max: 2 } }));
    expect(sizes["gpu-1"]).toEqual({ min: 0, max: 2, desired: 2 });
  });

  test("`up` gives sleeping pools their sizes back", async () => {
    const sizes: Record<string, Size> = { "gpu-1": { min: 1, max: 2, desired: 1 }, "cpu-1": { ...ONE } };
    await use(cluster(sizes));
    const target = targetOf({ nodes: { min: 1, max: 2 } });
    await changePools(target.plan as EksPlan, target.context, "sleep");
    // The autoscaler takes them away.
    sizes["gpu-1"] = { min: 0, max: 2, desired: 0 };
    await readyMachines(target);
    expect(sizes).toEqual({ "gpu-1": { min: 1, max: 2, desired: 1 }, "cpu-1": ONE });
  });

  test("`up` changes no pool that has its size, and none before the cluster exists", async () => {
    await use(cluster({ "gpu-1": { min: 0, max: 2, desired: 2 }, "cpu-1": ONE, "system-1": SYSTEM }));
    const target = targetOf({ nodes: { min: 0, max: 2 } });
    expect(await readyMachines(target)).toEqual([]);
    expect(changes()).toBe(0);
    await aws?.close();
    await use({ "eks:ListNodegroups": () => ({ error: "ResourceNotFoundException", status: 404 }) });
    expect(await readyMachines(target)).toEqual([]);
  });

  test("`up` names the node groups whose size EKS cannot change, and changes the others", async () => {
    const none = { min: 0, max: 0, desired: 0 };
    const sizes = { "gpu-1": { ...ONE }, "gpu-2": { ...none }, "gpu-3": { ...none }, "gpu-4": { ...none } };
    const groups = {
      "gpu-1": { statuses: ["CREATE_FAILED"] },
      "gpu-2": { statuses: ["DELETING"] },
      "gpu-3": { statuses: ["DEGRADED"] },
      "gpu-4": { isGone: true },
    };
    await use(cluster(sizes, [], groups));
    expect(await readyMachines(targetOf({ nodes: { min: 0, max: 1 } }))).toEqual([
      "Pool gpu: its node group gpu-1 is CREATE_FAILED, and takes no size",
      "Pool gpu: its node group gpu-2 is DELETING, and takes no size",
      "Pool gpu: 0 to 0 machines with 0 wanted before, 0 to 1 machines with 0 wanted now",
    ]);
    expect(sizes).toMatchObject({ "gpu-1": ONE, "gpu-2": none, "gpu-3": { min: 0, max: 1, desired: 0 } });
  });

  test("`up` waits for a node group that EKS creates or updates, unless the group has its size", async () => {
    const { context, plan } = targetOf({ nodes: { min: 0, max: 2 } });
    const sizes = { "gpu-1": { ...ONE }, "cpu-1": ONE };
    const groups = {
      "gpu-1": { statuses: ["CREATING", "UPDATING", "ACTIVE"] },
      "cpu-1": { statuses: ["UPDATING"] },
    };
    await use(cluster(sizes, [], groups));
    await sizePools(plan as EksPlan, context, 0);
    expect(sizes["gpu-1"]).toEqual({ min: 0, max: 2, desired: 1 });
  });

  test("`up` starts no machine of an instance type that Pulumi replaces", async () => {
    const sizes = { "gpu-1": { min: 0, max: 1, desired: 0 } };
    await use(cluster(sizes, [], { "gpu-1": { instanceType: "p4d.24xlarge" } }));
    expect(await readyMachines(targetOf({ nodes: { min: 1, max: 1 } }))).toEqual([]);
    expect(changes()).toBe(0);
  });

  test("`up` asks AWS nothing when an image was not pushed", async () => {
    await use({});
    const target = awsTarget(planOf({}), "dev");
    await expect(readyMachines(target)).rejects.toThrow(ConfigError);
    expect(aws?.asked).toEqual([]);
  });

  test("`up` waits for EKS to change a node group, and reports why EKS failed to", async () => {
    const { context, plan } = targetOf({ nodes: { min: 0, max: 2 } });
    await use(cluster({ "gpu-1": { min: 0, max: 1, desired: 1 } }, ["InProgress", "InProgress"]));
    await sizePools(plan as EksPlan, context, 0);
    expect(aws?.asked.filter((action) => action === "eks:DescribeUpdate")).toHaveLength(3);
    await aws?.close();
    await use({
      ...cluster({ "gpu-1": { min: 0, max: 1, desired: 1 } }),
      "eks:DescribeUpdate": () => ({
        json: {
          update: { status: "Failed", errors: [{ errorCode: "AccessDenied", errorMessage: "not now" }] },
        },
      }),
    });
    await expect(sizePools(plan as EksPlan, context, 0)).rejects.toThrow(
      /gpu-1.*Failed.*AccessDenied: not now/,
    );
  });

  test("a pool that has its size needs no change", () => {
    const group = { name: "gpu-1", min: 0, max: 2, desired: 1 };
    expect(plannedSize({ minSize: 0, maxSize: 2 }, group)).toBeNull();
    expect(plannedSize({ minSize: 0, maxSize: 3 }, group)).toEqual({ name: "gpu-1", min: 0, max: 3 });
  });
});

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

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-aws-up-"));
    lockFile = join(folder, "images.lock.json");
    pulumi = useFakePulumi(folder);
    done = [];
    seen = 0;
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
      "eks:UpdateNodegroupConfig": () => ({ json: { update: { id: "update-1" } } }),
      "eks:DescribeUpdate": () => ({ json: { update: { status: "Successful" } } }),
    };
    aws = await startFakeAws((action, input) => {
      done.push(...newCalls());
      if (action === "eks:UpdateNodegroupConfig") done.push(action);
      return account(answers)(action, input);
    });
    stubCredentials();
    vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
    vi.stubEnv("ENGINE_ROOM_IMAGE_LOCK", lockFile);
    vi.stubEnv("PULUMI_BACKEND_URL", "s3://room-state/pulumi");
    vi.stubEnv("ENGINE_ROOM_RUNNER", "");
    vi.stubEnv("CI", "true");
    // The command sets it for the program; the stub puts back what was there.
    vi.stubEnv("ENGINE_ROOM_ONLY_REGISTRIES", undefined);
  });
  afterEach(async () => {
    await aws.close();
    rmSync(folder, { recursive: true, maxRetries: 5 });
    rmSync(stackPaths(NAME).directory, { recursive: true, force: true, maxRetries: 5 });
  });

  /** Calls of the Pulumi CLI since the last question to AWS. */
  const newCalls = () => {
    const all = pulumi.calls().slice(seen);
    seen += all.length;
    return all.map(({ args: [command, ...words] }) =>
      ["pulumi", command, ...(command === "state" ? words.slice(0, 2) : [])].join(" "),
    );
  };

  describe("with the images pushed", () => {
    beforeEach(() => writeFileSync(lockFile, imageLock(readAwsTarget(stack).plan)));

    /** Changes of what runs, in their order. */
    const changes = () => [...done, ...newCalls()].filter((call) => /^pulumi (up|state)|^eks:/.test(call));

    test("`up` sizes pools before Pulumi waits for pods", async () => {
      await (await openStack(stack)).up();
      expect(changes()).toEqual(["eks:UpdateNodegroupConfig", "pulumi up"]);
    });

    test("`up` ends before any change when an image was not pushed", async () => {
      writeFileSync(lockFile, JSON.stringify({ version: 1, images: {} }));
      await expect((await openStack(stack)).up()).rejects.toThrow(ConfigError);
      expect(changes()).toEqual([]);
    });

    test("`up` of the registries alone changes no pool", async () => {
      await (await openStack(stack)).up({ targets: ["**engine-room:aws:Registries**"] });
      expect(changes()).toEqual(["pulumi up"]);
    });
  });

  describe("of a stack in a shared state", () => {
    beforeEach(() => {
      vi.stubEnv("PULUMI_BACKEND_URL", "s3://room-state/pulumi");
      // There is no cluster yet.
      answers["eks:ListNodegroups"] = () => ({ error: "ResourceNotFoundException", status: 404 });
    });

    const up = (values: Readonly<Record<string, unknown>>, ...options: readonly string[]) =>
      runCommand("up", "--stack", NAME, "--config-file", writtenStackFile(folder, values), ...options);

    const updates = () => pulumi.calls().filter(({ args }) => args[0] === "up");

    const targetsOf = (args: readonly string[]) => args.filter((_, index) => args[index - 1] === "--target");

    test("`up --registries` makes only the repositories and their provider", async () => {
      expect(await up(EKS_STACK, "--registries")).toMatchObject({ exitCode: 0 });
      const [update, ...others] = updates();
      expect(others).toEqual([]);
      expect(update?.only).toBe("1");

      // As the CLI reads them: two stars stand for anything.
      const patterns = targetsOf(update?.args ?? []).map(
        (target) => new RegExp(`^${target.split("**").map(escaped).join(".*")}$`),
      );
      const file = writtenStackFile(folder, EKS_STACK);
      const { resources } = await renderStack(NAME, readStackFile({ name: NAME, configFile: file }));
      const made = resources.filter(({ urn }) => patterns.some((pattern) => pattern.test(urn)));
      expect(new Set(made.map(({ type }) => type))).toEqual(
        new Set([
          "pulumi:providers:aws",
          "engine-room:aws:Registries",
          "aws:ecr/repository:Repository",
          "aws:ecr/lifecyclePolicy:LifecyclePolicy",
        ]),
      );
      const left = resources.filter((one) => !made.includes(one));
      expect(left.filter(({ type }) => type.startsWith("aws:ecr/"))).toEqual([]);
    });

    test("`up` without --registries makes the whole stack", async () => {
      writeFileSync(lockFile, imageLock(checkedPlan(EKS_STACK).plan as AwsPlan));
      expect(await up(EKS_STACK)).toMatchObject({ exitCode: 0 });
      const [update] = updates();
      expect(update?.only).toBe("");
      expect(targetsOf(update?.args ?? [])).toEqual([]);
    });

    test("`up --registries` is refused on other platforms before anything is asked", async () => {
      const local = { platform: "local", models: [{ name: "smollm2", model: "smollm2-135m-instruct" }] };
      const { exitCode, stderr } = await up(local, "--registries");
      expect(exitCode).toBe(2);
      expect(stderr).toContain("--registries is for stacks of `platform: aws`.");
      expect(pulumi.calls()).toEqual([]);
    });
  });
});

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
