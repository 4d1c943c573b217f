/** One machine on AWS: its tasks, Compose file, units and scripts, and what systemd, shellcheck and mkfs.xfs make of them. */

import { spawnSync } from "node:child_process";
import {
  closeSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { fileText } from "../../../../../infra/plan/aws/data-files.ts";
import { composeProject } from "../../../../../infra/plan/aws/machine/compose.ts";
import { type InstancePlan, userDataText } from "../../../../../infra/plan/aws/machine/instance.ts";
import { shellVariables } from "../../../../../infra/plan/aws/machine/tasks.ts";
import type { DockerStack } from "../../../../../infra/plan/docker/docker-stack.ts";
import { projectRoot } from "../../../../../scripts/program/stack-file.ts";
import { needs } from "../../../../harness/requirements.ts";
import {
  missingMkfsXfs,
  missingShellcheck,
  missingSystemd,
  SHELLCHECK,
  SYSTEMD_ANALYZE,
} from "../../../../harness/systemd.ts";
import { times } from "../../../../harness/thorough.ts";
import {
  ec2Plan,
  ec2Values,
  fullValues,
  hostStack,
  instanceOf,
  secretValues,
  type Values,
  withContainer,
} from "./stacks.ts";

const small = instanceOf(ec2Values);

const full = instanceOf(fullValues);

const withSecrets = instanceOf(secretValues);

const instances = [
  ["a small stack", small],
  ["a stack with everything", full],
  ["a stack with secrets", withSecrets],
] as const;

/** Names of the documents of a stack. */
const documents = ({ tasks }: InstancePlan) => tasks.map(({ document }) => document.name);

test("the machine has the pool's instance type, the network's first zone and an image of AWS", () => {
  expect(small).toMatchObject({
    zone: "a",
    template: {
      imageId:
        "resolve:ssm:/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id",
      blockDeviceMappings: [{ deviceName: "/dev/xvda", ebs: { volumeSize: 150, encrypted: "true" } }],
    },
    databaseVolume: { availabilityZone: "us-east-1a", size: 20, encrypted: true },
    databaseDevice: "/dev/sdf",
  });
  expect(small.machine).toEqual({
    instanceType: "g5.xlarge",
    associatePublicIpAddress: false,
    metadataOptions: { httpEndpoint: "enabled", httpTokens: "required", httpPutResponseHopLimit: 1 },
    disableApiTermination: false,
    instanceInitiatedShutdownBehavior: "stop",
  });
});

test("the root disk is large enough for the machine's image whatever the stack file says", () => {
  const sizes = [20, 74, 76].map(
    (diskGiB) =>
      instanceOf({ ...ec2Values, pools: [{ name: "gpu", instanceType: "p4d.24xlarge", diskGiB }] }).template
        .blockDeviceMappings?.[0]?.ebs?.volumeSize,
  );
  expect(sizes).toEqual([75, 75, 76]);
});

test("the machine may reach HTTPS, NFS and the external services of the stack file", () => {
  const databases = (vector: string, mongo: object = {}) =>
    instanceOf({
      ...ec2Values,
      databases: "external",
      externalDatabases: { mongo: { uri: { secure: "v1:def" }, ...mongo }, vector: { url: vector } },
    }).egressPorts;
  expect(small.egressPorts).toEqual({ https: 443, nfs: 2049 });
  expect(databases("http://10.0.0.5:6333")).toEqual({ https: 443, nfs: 2049, mongo: 27017, vector: 6333 });
  expect(databases("https://qdrant.example.org", { port: 10255 })).toEqual({
    https: 443,
    nfs: 2049,
    mongo: 10255,
  });
  const images = { registry: "registry.example.org:5000/models" };
  expect(instanceOf({ ...ec2Values, images }).egressPorts).toEqual({
    https: 443,
    nfs: 2049,
    registry: 5000,
  });
});

test("the machine has the capacity type, reservation, zone and protection of the stack file", () => {
  const pool = { name: "gpu", instanceType: "g5.xlarge" };
  const spot = { ...pool, capacity: "spot", hourlyUsd: 0.5 };
  expect(instanceOf({ ...ec2Values, pools: [spot] }).machine.instanceMarketOptions).toEqual({
    marketType: "spot",
  });
  const reserved = { ...pool, capacityReservationId: "cr-0123456789abcdef0" };
  expect(instanceOf({ ...ec2Values, pools: [reserved] }).machine.capacityReservationSpecification).toEqual({
    capacityReservationTarget: { capacityReservationId: "cr-0123456789abcdef0" },
  });
  expect(instanceOf({ ...ec2Values, retain: ["demo"] }).machine.disableApiTermination).toBe(true);
  expect(instanceOf({ ...ec2Values, pools: [{ ...pool, zone: "b" }] }).zone).toBe("b");
});

const IDS = {
  FILE_SYSTEM_ID: "fs-1",
  ACCESS_POINT_ID: "fsap-1",
  DATABASE_VOLUME_ID: "vol-0123456789abcdef0",
};

test.each(instances)("user data of %s is below 16 KiB", (_, { userData }) => {
  expect(Buffer.byteLength(userDataText(userData, IDS))).toBeLessThan(16_384);
});

test("user data has the number of GPUs, the local disks and the ids of store and disk", () => {
  const variables = (instance: InstancePlan) => userDataText(instance.userData, IDS).split("\n").slice(2, 7);
  expect(variables(full)).toEqual([
    "GPUS='8'",
    "LOCAL_DISKS='/opt/dlami/nvme'",
    "FILE_SYSTEM_ID='fs-1'",
    "ACCESS_POINT_ID='fsap-1'",
    "DATABASE_VOLUME_ID='vol-0123456789abcdef0'",
  ]);
  expect(
    variables(instanceOf({ ...ec2Values, pools: [{ name: "gpu", instanceType: "g5.xlarge" }] }))[0],
  ).toBe("GPUS='1'");
});

test("tasks run in the order setup, builds, services", () => {
  const names = small.tasks.map(({ name }) => name);
  expect(names.map((name) => name.replace(/-[0-9a-f]{12}$/, ""))).toEqual([
    "files-1",
    "setup",
    "build-gpt2-medium",
    "build-encoders",
    "services",
  ]);
});

test.each(instances)(
  "documents of %s are within the limits of Systems Manager and have no placeholders",
  (_, instance) => {
    for (const { document, script, timeoutSeconds, waitSeconds } of instance.tasks) {
      expect(Buffer.byteLength(document.content)).toBeLessThan(65_536);
      expect(document.name).toMatch(/^[a-zA-Z0-9_.-]{3,128}$/);
      expect(script).not.toMatch(/\{\{/);
      // The agent gives up after two hours.
      expect(timeoutSeconds).toBeLessThan(7200);
      expect(waitSeconds).toBeGreaterThan(timeoutSeconds);
      const { mainSteps } = JSON.parse(document.content);
      expect(mainSteps).toHaveLength(1);
      expect(mainSteps[0].inputs.runCommand.join("\n")).toBe(script);
    }
  },
);

/** Files that the tasks write, by path. */
function filesOf({ tasks }: InstancePlan): Readonly<Record<string, string>> {
  const puts = tasks.flatMap(({ script }) => [...script.matchAll(/^put 0\d+ (\S+) (\S+)$/gm)]);
  const files = puts.map(
    ([, path = "", text = ""]) => [path, Buffer.from(text, "base64").toString()] as const,
  );
  expect(new Set(files.map(([path]) => path)).size).toBe(files.length);
  return Object.fromEntries(files);
}

test("files of many models are spread over several documents, each file in one document", () => {
  expect(full.tasks.map(({ name }) => name).slice(0, 3)).toEqual(["files-1", "files-2", "setup"]);
  const { text, files } = composeProject(hostStack(ec2Plan(fullValues)), null);
  expect(filesOf(full)).toMatchObject({ ...files, "/etc/engine-room/next/compose.yaml": text });
});

test("logs of containers go to CloudWatch by Docker's own driver, with the machine's role, if the stack file sets it", () => {
  const logged = instanceOf({ ...ec2Values, logs: { cloudwatch: { retentionDays: 7 } } });
  const compose = (instance: InstancePlan) =>
    parse(filesOf(instance)["/etc/engine-room/next/compose.yaml"] ?? "") as {
      readonly services: Readonly<Record<string, { readonly logging: unknown }>>;
    };
  const drivers = Object.values(compose(logged).services).map(({ logging }) => logging);
  expect(drivers.length).toBeGreaterThan(2);
  for (const driver of drivers)
    expect(driver).toEqual({
      driver: "awslogs",
      options: {
        "awslogs-group": "engine-room-demo/containers",
        "awslogs-region": "us-east-1",
        mode: "non-blocking",
        tag: "{{.Name}}",
      },
    });
  expect(logged.role.statements.find(({ Sid }) => Sid === "WriteContainerLogs")).toEqual({
    Sid: "WriteContainerLogs",
    Effect: "Allow",
    Action: ["logs:CreateLogStream", "logs:PutLogEvents"],
    Resource: ["arn:aws:logs:us-east-1:111122223333:log-group:engine-room-demo/containers:*"],
  });
  expect(JSON.stringify(small)).not.toMatch(/awslogs|WriteContainerLogs/);
});

test("a build longer than Systems Manager's time limit is waited for by several tasks", () => {
  const instance = instanceOf(ec2Values, withContainer("engineBuild", { timeoutSeconds: 15_000 }));
  const parts = instance.tasks.filter(({ name }) => name.startsWith("build-gpt2-medium"));
  const commands = parts.map(({ script }) =>
    [...script.matchAll(/^\S*engine-room (.*)$/gm)].map(([, one]) => one),
  );
  const build = parts[0]?.name.replace("build-", "");
  expect(commands).toEqual([
    [`start_build ${build} gpt2-medium`, `await_build ${build} 6000 0 gpt2-medium`],
    [`await_build ${build} 6000 0 gpt2-medium`],
    [`await_build ${build} 3300 1 gpt2-medium`],
  ]);
});

test("a build stops the server whose GPU it needs and no other", () => {
  const stops = (instance: InstancePlan, build: RegExp) =>
    /start_build \S+ ?(.*)$/m.exec(instance.tasks.find(({ name }) => build.test(name))?.script ?? "")?.[1];
  expect(stops(small, /^build-gpt2/)).toBe("gpt2-medium");
  // Five of eight GPUs serve.
  expect(stops(full, /^build-llava-1.5/)).toBe("");
});

/** Whether each document differs from that of the small stack, by index. */
const changedDocuments = (other: InstancePlan) =>
  documents(small).map((name, index) => name !== documents(other)[index]);

test("a changed image changes the documents of setup and services, but not of builds without it", () => {
  const other = instanceOf(ec2Values, (stack) => ({
    ...stack,
    images: stack.images.map((image) =>
      image.name === "services" && image.kind === "locked"
        ? { ...image, reference: image.reference.replace(/0{64}$/, "1".repeat(64)) }
        : image,
    ),
  }));
  expect(changedDocuments(other)).toEqual([false, true, false, false, true]);
});

test("a changed build changes its own document and those of setup and services", () => {
  const other = instanceOf(
    ec2Values,
    withContainer("encoderBuild", { files: { "/etc/engine-room/a.json": "{}" } }),
  );
  expect(changedDocuments(other)).toEqual([true, true, false, true, true]);
  const longer = instanceOf(ec2Values, withContainer("encoderBuild", { timeoutSeconds: 9 }));
  expect(changedDocuments(longer)).toEqual([false, false, false, true, true]);
});

test("a document above Systems Manager's limit is refused with its size", () => {
  const huge = () =>
    instanceOf(ec2Values, withContainer("gateway", { files: { "/etc/a.json": "x".repeat(60_000) } }));
  expect(huge).toThrow(/Systems Manager takes 60000/);
});

interface ComposeService {
  readonly container_name: string;
  readonly environment?: readonly string[];
  readonly restart: string;
  readonly depends_on?: Readonly<Record<string, { condition: string; required: boolean }>>;
  readonly deploy?: {
    readonly resources: { readonly reservations: { readonly devices: readonly object[] } };
  };
  readonly volumes?: readonly { readonly source: string; readonly bind?: object }[];
  readonly configs?: readonly { readonly source: string; readonly target: string }[];
  readonly secrets?: readonly { readonly source: string; readonly target: string }[];
  readonly labels: Readonly<Record<string, string>>;
}

interface ComposeFile {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly configs: Readonly<Record<string, { readonly file: string }>>;
  readonly volumes: object;
  readonly networks: object;
}

function composeOf(values: Values, change: (stack: DockerStack) => DockerStack = (same) => same) {
  const project = composeProject(change(hostStack(ec2Plan(values))), null);
  const file = parse(project.text) as ComposeFile;
  const service = (name: string) => {
    const found = Object.entries(file.services).find(
      ([key]) => key.replace(/-[0-9a-f]{12}$/, "-KEY") === name,
    );
    if (found === undefined) throw new Error(`No service ${name}: ${Object.keys(file.services).join(", ")}`);
    return found[1];
  };
  return { ...project, file, service };
}

test("a server requires its build, and a gateway starts without its databases", () => {
  const { file, service } = composeOf(ec2Values);
  const [build = ""] = Object.keys(file.services).filter((name) => /^gpt2-medium-[0-9a-f]{12}$/.test(name));
  expect(service("gpt2-medium").depends_on).toEqual({
    [build]: { condition: "service_completed_successfully", required: true },
  });
  // Memory and disk are for one build at a time.
  expect(service("encoders-KEY").depends_on).toEqual({
    [build]: { condition: "service_completed_successfully", required: false },
  });
  const optional = { condition: "service_healthy", required: false };
  expect(service("gateway").depends_on).toEqual({ mongo: optional, vector: optional });
});

test("a service restarts after a failure and not at boot, and a build runs once", () => {
  const { service } = composeOf(ec2Values);
  expect(["gpt2-medium", "gateway", "gpt2-medium-KEY"].map((name) => service(name).restart)).toEqual([
    "on-failure",
    "on-failure",
    "no",
  ]);
});

test("containers have their names, and networks and volumes are those of the machine", () => {
  const { file, service } = composeOf(fullValues);
  expect(service("gateway").container_name).toBe("demo-gateway");
  expect(file.networks).toEqual({ "demo-network": { external: true } });
  expect(file.volumes).toEqual({
    "demo-mongo": { external: true },
    "demo-scratch": { external: true },
    "demo-vector": { external: true },
  });
  // Docker makes no empty folder of a store that is not mounted.
  expect(service("llava").volumes).toContainEqual(
    expect.objectContaining({ source: "/srv/engine-room/store", bind: { create_host_path: false } }),
  );
});

test("a container gets its GPUs by number, or all GPUs of a machine that has one", () => {
  const devices = (values: Values, name: string) =>
    composeOf(values).service(name).deploy?.resources.reservations.devices;
  const nvidia = { driver: "nvidia", capabilities: ["gpu"] };
  expect(devices(fullValues, "llava")).toEqual([{ ...nvidia, device_ids: ["1"] }]);
  expect(devices(ec2Values, "gpt2-medium")).toEqual([{ ...nvidia, count: "all" }]);
  expect(devices(ec2Values, "gateway")).toBeUndefined();
});

test("another content of a file is another file and another label of its container", () => {
  const { file, files, service } = composeOf(ec2Values);
  const [config] = service("gateway").configs ?? [];
  expect(config?.target).toBe("/etc/engine-room/gateway.json");
  const path = file.configs[config?.source ?? ""]?.file ?? "";
  expect(path).toMatch(/^\/etc\/engine-room\/files\/gateway-[0-9a-f]{12}\/gateway\.json$/);
  expect(JSON.parse(files[path] ?? "")).toMatchObject({ port: 8080 });
  const other = composeOf(
    ec2Values,
    withContainer("gateway", { files: { "/etc/engine-room/gateway.json": "{}" } }),
  );
  expect(other.service("gateway").labels["engine-room.files"]).not.toBe(
    service("gateway").labels["engine-room.files"],
  );
  expect(other.files).not.toHaveProperty([path]);
});

test("secrets are files in memory, and another value changes services and no build", () => {
  const { service, text } = composeOf(secretValues);
  expect(service("gateway").secrets).toEqual([
    { source: "mongo-uri", target: "/run/secrets/mongo-uri" },
    { source: "vector-api-key", target: "/run/secrets/vector-api-key" },
  ]);
  expect(service("gpt2-medium-KEY").secrets).toEqual([
    { source: "hub-token", target: "/run/secrets/hub-token" },
  ]);
  expect(service("gpt2-medium-KEY").volumes?.map(({ source }) => source)).not.toContain(
    "/run/engine-room/secrets/hub-token",
  );
  expect(text).toContain("file: /run/engine-room/secrets/hub-token\n");
  const marked = ["gateway", "gpt2-medium", "gpt2-medium-KEY"].map((name) =>
    Object.keys(service(name).labels).includes("engine-room.secrets"),
  );
  expect(marked).toEqual([true, false, false]);
  for (const secret of ["v1:abc", "v1:def", "v1:ghi"]) {
    expect(text).not.toContain(secret);
    expect(JSON.stringify(withSecrets)).not.toContain(secret);
  }
});

test("Compose gets every text as it is: nothing is a variable", () => {
  const anyText = fc.string({ unit: fc.constantFrom(..."\"'\\$%{};#\n\t -=~`:a") });
  fc.assert(
    fc.property(fc.array(anyText), (words) => {
      const change = (stack: DockerStack): DockerStack => ({
        ...stack,
        containers: stack.containers.map((planned) => ({
          ...planned,
          args: { ...planned.args, envs: words.map((word) => `A=${word}`) },
        })),
      });
      const { environment = [] } = composeOf(ec2Values, change).service("gateway");
      expect(environment.map((one) => one.replaceAll("$$", "$"))).toEqual(words.map((word) => `A=${word}`));
      for (const one of environment) expect(one.replaceAll("$$", "")).not.toContain("$");
    }),
    { numRuns: times(50, 500) },
  );
});

test("values for the machine's program are text of the shell", () => {
  const values = { A: "it's $HOME `x` \\", B: "two\nlines", C: 3 };
  const { stdout } = spawnSync("bash", ["-c", `${shellVariables(values)}printf '%s|' "$A" "$B" "$C"`], {
    encoding: "utf8",
  });
  expect(stdout).toBe("it's $HOME `x` \\|two\nlines|3|");
});

test("the stack creates its secrets or uses existing secrets", () => {
  expect(withSecrets.secrets.map(({ name, secretName }) => secretName && name)).toEqual([
    "hubToken",
    "mongoUri",
    "vectorApiKey",
  ]);
  expect(full.secrets).toEqual([
    {
      name: "hubToken",
      secretName: null,
      arn: "arn:aws:secretsmanager:eu-west-1:111122223333:secret:hub-AbCdEf",
      region: "eu-west-1",
    },
  ]);
  expect(small.secrets).toEqual([]);
});

test("the machine reads its lists from the stack's values", () => {
  const environment = (instance: InstancePlan) => filesOf(instance)["/etc/engine-room/next/stack.env"];
  expect(environment(full)).toContain(
    "SECRETS='hub-token arn:aws:secretsmanager:eu-west-1:111122223333:secret:hub-AbCdEf eu-west-1'\n",
  );
  // Name and owner of volumes on the databases' disk.
  expect(environment(full)).toContain(
    "VOLUMES='demo-scratch'\nDATABASE_VOLUMES='demo-mongo 999\ndemo-vector 1000'\nDATABASE_DISK_GIB='20'\n",
  );
  expect(environment(withSecrets)).toContain("DATABASE_VOLUMES=''\n");
  expect(environment(withSecrets)).toContain("mongo-uri engine-room-demo/mongo-uri us-east-1\n");
  expect(environment(small)).toContain("SERVICE_NAMES='gpt2-medium encoders mongo vector gateway'\n");
});

test("a larger databases' disk changes the setup, which grows the file system", () => {
  const larger = instanceOf({ ...ec2Values, databaseStorage: { sizeGiB: 30 } });
  expect(changedDocuments(larger)).toEqual([false, true, false, false, true]);
});

test("setup and services are the tasks that read secrets", () => {
  const readers = withSecrets.tasks.filter(({ readsSecrets }) => readsSecrets).map(({ name }) => name);
  expect(readers).toEqual(["setup", "services"]);
});

describe("the role", () => {
  const actionsOf = ({ role }: InstancePlan) => role.statements.flatMap(({ Action }) => Action);

  test("the role names its actions and resources", () => {
    for (const { Action, Resource } of full.role.statements) {
      for (const action of Action) expect(action).toMatch(/^[a-z0-9]+:[A-Za-z0-9]+$/);
      if (!Resource.includes("*")) for (const resource of Resource) expect(resource).toMatch(/^arn:aws:/);
    }
    expect(full.role.managedPolicies).toEqual([]);
  });

  test("the role allows the stack's images, secrets and store", () => {
    const resources = (sid: string) => withSecrets.role.statements.find(({ Sid }) => Sid === sid)?.Resource;
    expect(resources("PullImages")).toEqual(
      ["encoders", "services", "trtllm"].map(
        (name) => `arn:aws:ecr:us-east-1:111122223333:repository/engine-room-demo/${name}`,
      ),
    );
    expect(resources("ReadSecrets")).toEqual(withSecrets.secrets.map(({ arn }) => arn));
    expect(resources("MountEngineStore")?.[0]).toMatch(/:file-system\/\$\{fileSystemId\}$/);
    expect(actionsOf(small)).not.toContain("secretsmanager:GetSecretValue");
  });
});

const SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin";

const MIB = 2 ** 20;

/** mkfs.xfs refuses less than 300 MiB; the file is sparse. */
const DISK_BYTES = 512 * MIB;

/** The magic number of ext2, in an otherwise empty superblock. */
const EXT2 = Buffer.from([0x53, 0xef]);

const EXT2_OFFSET = 1080;

test("the databases' disk is mounted after formatting, and a failure does not stop the boot", () => {
  const unit = fileText("machine/srv-databases.mount");
  expect(unit).toContain("Requires=engine-room.format-databases.service\nAfter=engine-room.format-databases");
  expect(unit).toContain("WantedBy=multi-user.target\n");
  expect(unit).toContain("DefaultDependencies=no\n");
});

/** Runs the machine's own script with blkid and mkfs.xfs of this machine, and a stand-in for udev. */
describe("formatting", needs(missingMkfsXfs), () => {
  let folder = "";
  let disk = "";
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-disk-"));
    disk = join(folder, "disk");
    writeFileSync(disk, "");
    truncateSync(disk, DISK_BYTES);
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  /** @param programs - Stand-ins for the system's, by name; udev does not know files. */
  function format(programs: Readonly<Record<string, string>> = {}) {
    const before = bytes();
    for (const [name, text] of Object.entries({ udevadm: "exit 0", ...programs }))
      writeFileSync(join(folder, name), `#!/bin/bash\n${text}\n`, { mode: 0o755 });
    const { status, stderr } = spawnSync("bash", ["-s", disk], {
      input: fileText("machine/format-databases.sh"),
      encoding: "utf8",
      timeout: 60_000,
      env: { PATH: `${folder}:${SYSTEM_PATH}` },
    });
    return { status, stderr, isUntouched: bytes().equals(before) };
  }

  test("an empty disk is formatted with XFS once", () => {
    expect(format()).toEqual({ status: 0, stderr: "", isUntouched: false });
    const env = { PATH: SYSTEM_PATH };
    const found = spawnSync("blkid", ["--probe", "--match-tag=TYPE", disk], { encoding: "utf8", env });
    expect(found.stdout).toContain('TYPE="xfs"');
    expect(format()).toMatchObject({ status: 0, stderr: "", isUntouched: true });
  });

  test("a disk with a file system is not formatted", () => {
    writeAt(EXT2, EXT2_OFFSET);
    expect(format()).toMatchObject({ status: 0, isUntouched: true });
  });

  test("a disk with a partition is not formatted", () => {
    const table = Buffer.alloc(512);
    table.set([0x80, 0, 2, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 16, 0, 0], 446);
    table.set([0x55, 0xaa], 510);
    writeAt(table, 0);
    expect(format()).toMatchObject({ status: 0, isUntouched: true });
  });

  test("a disk with any data is not formatted", () => {
    writeAt(Buffer.from("data"), 4096);
    expect(format()).toMatchObject({
      status: 1,
      stderr: expect.stringContaining("is not empty either"),
      isUntouched: true,
    });
  });

  test("a file system that only mkfs.xfs detects is not overwritten", () => {
    writeAt(EXT2, EXT2_OFFSET);
    expect(format({ blkid: "exit 2", cmp: "exit 0" })).toMatchObject({
      status: 1,
      stderr: expect.stringContaining("appears to contain an existing filesystem"),
      isUntouched: true,
    });
  });

  test.each([4, 8])("a disk is not formatted if blkid exits with %i", (code) => {
    expect(format({ blkid: `exit ${code}` })).toMatchObject({
      status: 1,
      stderr: expect.stringContaining(`blkid ends with ${code}`),
      isUntouched: true,
    });
  });

  test("an unreadable disk that blkid calls empty is not formatted", () => {
    expect(format({ blkid: "exit 2", cmp: "exit 2" })).toMatchObject({ status: 1, isUntouched: true });
  });

  test("formatting fails if the disk does not appear", () => {
    expect(format({ udevadm: "exit 1" })).toMatchObject({ status: 1, isUntouched: true });
  });

  /** The start of the disk, where every file system has its signature. */
  function bytes(): Buffer {
    const found = Buffer.alloc(MIB);
    withDisk("r", (file) => readSync(file, found, 0, MIB, 0));
    return found;
  }

  function writeAt(data: Buffer, offset: number): void {
    withDisk("r+", (file) => writeSync(file, data, 0, data.length, offset));
  }

  function withDisk(flags: string, use: (file: number) => void): void {
    const file = openSync(disk, flags);
    use(file);
    closeSync(file);
  }
});

/** A file beside the plan's code, for a program that reads files. */
const machineFilePath = (name: string) => join(projectRoot, "infra/plan/aws/machine", name);

/** Units as user-data.sh writes them. */
const UNITS = Object.fromEntries(
  (["engine-room.service", "engine-room.format-databases.service", "srv-databases.mount"] as const).map(
    (name) => [
      name,
      fileText(`machine/${name}`).replaceAll(
        "@DEVICE@",
        "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123",
      ),
    ],
  ),
);

describe("systemd-analyze verify", needs(missingSystemd), () => {
  /** Folder with the units' programs. */
  let root = "";
  beforeAll(() => {
    root = mkdtempSync(join(tmpdir(), "engine-room-root-"));
    cpSync("/usr/lib/systemd/system", join(root, "usr/lib/systemd/system"), {
      recursive: true,
      verbatimSymlinks: true,
    });
    for (const program of [
      "usr/bin/docker",
      "opt/engine-room/engine-room",
      "opt/engine-room/format-databases",
    ]) {
      const file = join(root, program);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, "#!/bin/sh\n", { mode: 0o755 });
    }
  });
  afterAll(() => rmSync(root, { recursive: true, force: true }));

  test("systemd-analyze accepts the machine's units", () => {
    expect(verified(UNITS)).toEqual({ status: 0, said: "" });
  });

  test("systemd-analyze reports an unknown key and a missing unit", () => {
    const service = "[Service]\nExecStart=/usr/bin/docker\n";
    const { said } = verified({
      "engine-room-a.service": `[Unit]\nRequires=b.service\n\n${service}Restrat=always\n`,
    });
    expect(said).toContain("Restrat");
    expect(said).toContain("b.service");
  });

  function verified(units: Readonly<Record<string, string>>) {
    const folder = join(root, "etc/systemd/system");
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    const all = { ...units, "docker.service": "[Service]\nExecStart=/usr/bin/docker\n" };
    for (const [name, text] of Object.entries(all)) writeFileSync(join(folder, name), text);
    const files = Object.keys(units).map((name) => join(folder, name));
    const { status, stdout, stderr } = spawnSync(
      SYSTEMD_ANALYZE,
      ["verify", "--man=no", `--root=${root}`, ...files],
      { encoding: "utf8", timeout: 60_000 },
    );
    return { status, said: `${stdout}${stderr}` };
  }
});

describe("shellcheck", needs(missingShellcheck), () => {
  test("shellcheck accepts the programs of the machine", () => {
    const programs = readdirSync(dirname(machineFilePath("task.sh"))).filter((name) => name.endsWith(".sh"));
    expect(programs).toHaveLength(4);
    expect(checked(...programs.map((name) => readFileSync(machineFilePath(name), "utf8")))).toBe("");
  });

  test.each(instances)("shellcheck accepts the scripts of %s", (_, instance) => {
    const scripts = instance.tasks.map(({ script }) => script);
    expect(checked(userDataText(instance.userData, IDS), ...scripts)).toBe("");
  });

  test("shellcheck reports an unquoted variable", () => {
    expect(checked("#!/bin/bash\nrm $1\n")).toContain("SC2086");
  });

  /** shellcheck's findings in all scripts, in one run. */
  function checked(...scripts: readonly string[]): string {
    const folder = mkdtempSync(join(tmpdir(), "engine-room-scripts-"));
    try {
      const files = scripts.map((script, index) => {
        const file = join(folder, `${index}.sh`);
        writeFileSync(file, script);
        return file;
      });
      const { stdout, stderr } = spawnSync(SHELLCHECK, ["--shell=bash", "--norc", ...files], {
        encoding: "utf8",
        timeout: 60_000,
      });
      return `${stdout}${stderr}`;
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
});
