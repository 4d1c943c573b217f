import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { AwsPlan } from "../../../infra/plan/gpu-stack.ts";
import { leftovers, leftoversReport } from "../../../scripts/aws/account.ts";
import { useStackCluster } from "../../../scripts/aws/pools.ts";
import { AwsError } from "../../../scripts/aws/session.ts";
import { withLogin } from "../../../scripts/images/registry.ts";
import { awsTarget } from "../../../scripts/program/targets.ts";
import { stackPaths } from "../../../scripts/stack/stack-paths.ts";
import { ACCOUNT, EC2_STACK, EKS_STACK, REGION } from "../../harness/aws/stacks.ts";
import { stackFileText } from "../../harness/stack-files.ts";
import { runCommand } from "../plan/run-plan.ts";
import { useFakePulumi } from "../stack/fake-pulumi.ts";
import { type Answers, account } from "./account.ts";
import { type FakeAws, startFakeAws, xmlAnswer } from "./fake-aws.ts";

describe("the account of a stack", () => {
  const STACK = `own-account-${process.pid}`;

  const OTHER = "999900001111";

  const STACKS = { eks: EKS_STACK, ec2: EC2_STACK } as const;

  const NAT_GATEWAY = `arn:aws:ec2:${REGION}:${ACCOUNT}:natgateway/nat-0123`;

  const VPC = `arn:aws:ec2:${REGION}:${ACCOUNT}:vpc/vpc-0123`;

  const listed = (...arns: readonly string[]): Answers => ({
    "tag:GetResources": () => ({
      json: { ResourceTagMappingList: arns.map((ResourceARN) => ({ ResourceARN })) },
    }),
  });

  const ofAnother: Answers = {
    "sts:GetCallerIdentity": () =>
      xmlAnswer("GetCallerIdentity", { Account: OTHER, Arn: `arn:aws:iam::${OTHER}:user/me` }, "member"),
  };

  let aws: FakeAws | undefined;

  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-own-account-"));
    const environment = {
      AWS_ACCESS_KEY_ID: "AKIAIOSFODNN7EXAMPLE",
      AWS_SECRET_ACCESS_KEY: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
      AWS_CONFIG_FILE: "/dev/null",
      AWS_PROFILE: "",
      AWS_SHARED_CREDENTIALS_FILE: "/dev/null",
      AWS_EC2_METADATA_DISABLED: "true",
      ENGINE_ROOM_RUNNER: "",
      CI: "",
      PULUMI_BACKEND_URL: "s3://room-state",
    };
    for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  });

  afterEach(async () => {
    rmSync(folder, { recursive: true, maxRetries: 5 });
    rmSync(stackPaths(STACK).directory, { recursive: true, force: true, maxRetries: 5 });
    await aws?.close();
  });

  async function run(
    compute: keyof typeof STACKS,
    answers: Answers,
    [name = "", ...words]: readonly string[],
  ) {
    aws = await startFakeAws(account(answers));
    vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
    const file = join(folder, "stack.yaml");
    writeFileSync(file, stackFileText(STACKS[compute]));
    return runCommand(name, "--stack", STACK, "--config-file", file, ...words);
  }

  const COMMANDS = [
    ["up"],
    ["refresh"],
    ["down"],
    ["sleep"],
    ["wake"],
    ["status"],
    ["logs", "gateway"],
    ["connect"],
    ["smoke"],
    ["verify"],
    ["ask", "What is it?"],
    ["images", "--push"],
    ["images", "--mirror", "--dry-run"],
  ].map((words) => [words.join(" "), words] as const);

  describe.each(["eks", "ec2"] as const)("a stack on %s", (compute) => {
    test.each(COMMANDS)(
      "`%s` ends at credentials of another account before anything else is asked",
      async (_, words) => {
        const pulumi = useFakePulumi(folder);
        const { exitCode, stdout, stderr } = await run(compute, ofAnother, words);
        expect([exitCode, stdout]).toEqual([1, ""]);
        expect(stderr).toBe(
          `Your credentials are of the account ${OTHER}.\nThe stack file names the account ${ACCOUNT}, the account of examples, and you are arn:aws:iam::${OTHER}:user/me. No other check was run.\nFix: Write \`account: "${OTHER}"\` if the stack belongs there; else take credentials of its account, and write that one.\n`,
        );
        expect(aws?.asked).toEqual(["sts:GetCallerIdentity"]);
        expect(pulumi.calls()).toEqual([]);
      },
    );
  });

  test.each(COMMANDS)("`%s` without credentials says how to log in", async (_, words) => {
    useFakePulumi(folder);
    vi.stubEnv("AWS_ACCESS_KEY_ID", undefined);
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", undefined);
    const { exitCode, stderr } = await run("ec2", {}, words);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(
      /^AWS does not know who you are in us-east-1\.\nCredentials.*\nFix: Log in \(`aws sso login`\)/,
    );
  });

  test.each(["preflight", "status"])("`%s` names an AWS profile that no file has", async (name) => {
    vi.stubEnv("AWS_ACCESS_KEY_ID", undefined);
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", undefined);
    vi.stubEnv("AWS_PROFILE", "wrok");
    const { exitCode, stdout, stderr } = await run("ec2", {}, [name]);
    expect(exitCode).toBe(1);
    expect(`${stdout}${stderr}`.replaceAll(/\s+/g, " ")).toContain("(AWS_PROFILE is wrok)");
  });

  test("an unreachable region is reported with the network's error", async () => {
    aws = await startFakeAws(account());
    const { url } = aws;
    await aws.close();
    vi.stubEnv("AWS_ENDPOINT_URL", url);
    const file = join(folder, "stack.yaml");
    writeFileSync(file, stackFileText(STACKS.ec2));
    const { exitCode, stderr } = await runCommand("status", "--stack", STACK, "--config-file", file);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(
      /^AWS does not know who you are in us-east-1\.\n.*ECONNREFUSED.*\nFix: .*correct `region`/,
    );
  });

  test.each(["start", "up", "refresh", "down", "preview"])(
    "`%s` with ENGINE_ROOM_RUNNER=tryout is refused before AWS is asked",
    async (name) => {
      vi.stubEnv("ENGINE_ROOM_RUNNER", "tryout");
      const { exitCode, stderr } = await run("eks", listed(NAT_GATEWAY), [name]);
      expect(exitCode).toBe(1);
      expect(stderr).toBe(
        "ENGINE_ROOM_RUNNER=tryout leaves the Pulumi CLI aside, and only the Pulumi CLI deploys stacks of `platform: aws`; unset it and try again.\n",
      );
      expect(aws?.asked).toEqual([]);
      expect(existsSync(stackPaths(STACK).directory)).toBe(false);
    },
  );

  test("`start` without a Pulumi CLI says how to install it", async () => {
    vi.stubEnv("PATH", folder);
    vi.stubEnv("PULUMI_HOME", folder);
    const { exitCode, stderr } = await run("ec2", {}, ["start"]);
    expect(exitCode).toBe(1);
    expect(stderr).toBe(
      "This machine has no Pulumi CLI, and only the Pulumi CLI deploys stacks of `platform: aws`; install it (https://www.pulumi.com/docs/install/), put `pulumi` on PATH and try again.\n",
    );
  });

  test("`down` of a stack unknown to the state fails and lists the account's resources with its tag", async () => {
    const pulumi = useFakePulumi(folder);
    const { exitCode, stdout, stderr } = await run("eks", listed(NAT_GATEWAY, VPC), ["down"]);
    expect([exitCode, stdout]).toEqual([1, ""]);
    expect(stderr).toContain(
      `The backend s3://room-state has no stack ${STACK}, and the account has 2 of its resources: log in to the backend that has it (\`pulumi login\`, or PULUMI_BACKEND_URL), and run \`down\` again.\n`,
    );
    expect(stderr).toContain(NAT_GATEWAY);
    expect(new Set(pulumi.calls().map(({ args }) => args.slice(0, 2).join(" ")))).toEqual(
      new Set(["stack export"]),
    );
  });

  test("`down` of a stack with an empty record fails, and deletes the record", async () => {
    const pulumi = useFakePulumi(folder);
    pulumi.keep([STACK]);
    vi.stubEnv("FAKE_STATE", "{}");
    const { exitCode, stderr } = await run("eks", listed(NAT_GATEWAY), ["down"]);
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`has no stack ${STACK}, and the account has 1 of its resources: log in to`);
    expect(pulumi.stacks()).toEqual([]);
  });

  test("`down` of a stack unknown to the state fails without permission to list its resources", async () => {
    useFakePulumi(folder);
    const denied: Answers = { "tag:GetResources": () => ({ error: "AccessDeniedException" }) };
    const { exitCode, stderr } = await run("eks", denied, ["down"]);
    expect(exitCode).toBe(1);
    expect(stderr).toContain(
      "whether the account has resources of it is not known: tag:GetResources failed: AccessDeniedException",
    );
  });

  test("`down` of a stack unknown to the state succeeds if the account has no resources of it", async () => {
    useFakePulumi(folder);
    const { exitCode, stdout } = await run("eks", listed(), ["down"]);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(new RegExp(`^Nothing with the tag engine-room:stack=${STACK} still costs money`));
  });

  test("`outputs` of a stack unknown to the state names `npx engine-room up`", async () => {
    useFakePulumi(folder);
    const { exitCode, stderr } = await run("eks", {}, ["outputs"]);
    expect(exitCode).toBe(1);
    expect(stderr).toContain(
      `\`npx engine-room up --stack ${STACK}\` brings it up. If it is up already, log in to`,
    );
  });
});

describe("the Docker engine for images", () => {
  let aws: FakeAws;

  let folder: string;

  beforeEach(async () => {
    aws = await startFakeAws(account());
    folder = mkdtempSync(join(tmpdir(), "engine-room-own-engine-"));
    const environment = {
      AWS_ENDPOINT_URL: aws.url,
      AWS_ACCESS_KEY_ID: "AKIAIOSFODNN7EXAMPLE",
      AWS_SECRET_ACCESS_KEY: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
      PATH: folder,
    };
    for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  });

  afterEach(async () => {
    rmSync(folder, { recursive: true, maxRetries: 5 });
    await aws.close();
  });

  /** @param script - Program that is `docker` on PATH; null for no program. */
  async function images(script: string | null, ...options: readonly string[]): Promise<string> {
    if (script !== null) {
      writeFileSync(join(folder, "docker"), `#!${process.execPath}\n${script}`);
      chmodSync(join(folder, "docker"), 0o755);
    }
    const file = join(folder, "stack.yaml");
    writeFileSync(file, stackFileText(EKS_STACK));
    const { exitCode, stderr } = await runCommand(
      "images",
      "--stack",
      "dev",
      "--config-file",
      file,
      ...options,
    );
    expect(exitCode).toBe(1);
    return stderr;
  }

  test("`images` without a Docker engine says once how to start it", async () => {
    const words =
      "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?";
    const said = await images(`console.error(${JSON.stringify(words)}); process.exit(1);`);
    expect(said).toBe(
      "No Docker engine answers at unix:///var/run/docker.sock. Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\nStart it (`sudo systemctl start docker`), or run this on a machine that has one (https://docs.docker.com/engine/install/).\n",
    );
  });

  test("`images` passes on other errors of the Docker engine", async () => {
    const words = "error during connect: the handshake failed";
    expect(await images(`console.error(${JSON.stringify(words)}); process.exit(1);`)).toContain(words);
  });

  test("`images --mirror --dry-run` says what to install when docker or buildx is missing", async () => {
    expect(await images(null, "--mirror", "--dry-run")).toMatch(
      /^The digest of nvcr\.io.* is not known: spawn docker ENOENT.*engine\/install\/;/,
    );
    const withoutBuildx = `console.error("unknown command: docker buildx\\n\\nRun 'docker --help' for more information"); process.exit(1);`;
    const said = await images(withoutBuildx, "--mirror", "--dry-run");
    expect(said).toMatch(/is not known: unknown command: docker buildx\. .*docker-buildx\)/m);
    expect(said).not.toContain("docker --help");
  });
});

describe("kubeconfig", () => {
  const { context } = awsTarget(checkedPlan(EKS_STACK).plan as AwsPlan, "dev");

  let aws: FakeAws | undefined;

  afterEach(async () => {
    await aws?.close();
  });

  // moto checks no permissions.
  test("the kubeconfig's error says which action AWS denied", async () => {
    aws = await startFakeAws(
      account({ "eks:DescribeCluster": () => ({ error: "AccessDeniedException", status: 403 }) }),
    );
    const environment = {
      AWS_ENDPOINT_URL: aws.url,
      AWS_ACCESS_KEY_ID: "AKIAIOSFODNN7EXAMPLE",
      AWS_SECRET_ACCESS_KEY: "example",
    };
    for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
    await expect(useStackCluster(context)).rejects.toThrow(
      /^eks:DescribeCluster failed: AccessDeniedException/,
    );
  });
});

const HOST = "111122223333.dkr.ecr.us-east-1.amazonaws.com";

test("Docker's configuration for a push has the login for ECR and keeps other registries' helpers", () => {
  const config = withLogin(
    { auths: { "nvcr.io": {} }, credsStore: "desktop", credHelpers: { [HOST]: "ecr-login" } },
    { own: "/home/me/.docker", host: HOST, auth: "dG9rZW4=" },
  );
  expect(config).toEqual({
    auths: { "nvcr.io": {}, [HOST]: { auth: "dG9rZW4=" } },
    credHelpers: { "nvcr.io": "desktop" },
    cliPluginsExtraDirs: ["/home/me/.docker/cli-plugins"],
  });
});

const DEV = { region: "us-east-1", stack: "dev" };

const arn = (service: string, rest: string) => `arn:aws:${service}:us-east-1:111122223333:${rest}`;

const deletion = (one: string) => leftovers("us-east-1", [one])[0]?.deletion;

test.each([
  [arn("elasticfilesystem", "file-system/fs-0123"), /efs delete-file-system --file-system-id fs-0123 /],
  [arn("ec2", "volume/vol-0123"), /ec2 delete-volume --volume-id vol-0123$/],
  [arn("ec2", "natgateway/nat-0123"), /ec2 delete-nat-gateway --nat-gateway-id nat-0123$/],
  [arn("ec2", "elastic-ip/eipalloc-0123"), /ec2 release-address --allocation-id eipalloc-0123 \(after/],
  [
    arn("eks", "nodegroup/engine-room-dev/gpu/1cb2-44"),
    /--cluster-name engine-room-dev --nodegroup-name gpu$/,
  ],
  [arn("logs", "log-group:/engine-room/dev:*"), /--log-group-name \/engine-room\/dev$/],
  [arn("ecr", "repository/engine-room-dev/services"), /--repository-name engine-room-dev\/services$/],
  [
    arn("elasticloadbalancing", "loadbalancer/app/engine-room-dev/50dc6c495c0c9188"),
    /--load-balancer-arn arn:aws:elasticloadbalancing:us-east-1:111122223333:loadbalancer\/app\/engine-room-dev\/50dc6c495c0c9188$/,
  ],
])("%s is listed with the command that deletes it", (one, words) => {
  expect(deletion(one)).toMatch(words);
  expect(deletion(one)).toMatch(/^aws --region us-east-1 /);
});

test("free resources are not listed as costs, only counted", () => {
  const free = [
    arn("ec2", "vpc/vpc-0123"),
    arn("ec2", "subnet/subnet-0123"),
    arn("ec2", "security-group/sg-0123"),
    arn("elasticloadbalancing", "targetgroup/engine-room-dev/0123"),
    "arn:aws:iam::111122223333:role/engine-room-dev-node",
  ];
  expect(leftovers("us-east-1", free)).toEqual([]);
  expect(leftoversReport(DEV, free)).toMatch(
    /^Nothing with the tag engine-room:stack=dev still costs money\. 5 more with it cost nothing/,
  );
});

test("the list of costs has databases' disks, and names resources without a tag with a command to find them", () => {
  const report = leftoversReport(DEV, [arn("ec2", "volume/vol-0123")]);
  expect(report).toContain("ec2 delete-volume --volume-id vol-0123");
  const [, notListed = ""] = report.split("In no list by tag:\n");
  expect(
    notListed
      .trimEnd()
      .split("\n")
      .map((line) => line.trim()),
  ).toEqual([
    expect.stringMatching(/^copies that AWS Backup/),
    expect.stringMatching(/^aws --region us-east-1 backup list-recovery-points-by-backup-vault /),
    expect.stringMatching(/^the log group of the cluster engine-room-dev/),
    expect.stringMatching(
      /^aws --region us-east-1 logs describe-log-groups --log-group-name-prefix \/aws\/eks\/engine-room-dev\/$/,
    ),
  ]);
});

test("a denied list of costs is reported with the place to look", () => {
  const report = leftoversReport(DEV, new AwsError("tag:GetResources", "AccessDeniedException: no"));
  expect(report).toContain("AccessDeniedException");
  expect(report).toContain("tag-editor");
});
