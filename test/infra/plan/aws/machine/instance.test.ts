/** One machine on AWS: its tasks, units and scripts, and what systemd, shellcheck and mkfs.xfs make of them. */

import { spawnSync } from "node:child_process";
import {
  chownSync,
  closeSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { databaseDiskFiles, volumeSerial } from "../../../../../infra/plan/aws/machine/database-disk.ts";
import { commandLine, unitText } from "../../../../../infra/plan/aws/machine/unit-text.ts";
import { filledText } from "../../../../../infra/plan/aws/names.ts";
import type { InstancePlan, InstanceTaskPlan } from "../../../../../infra/plan/aws/types.ts";
import { needs } from "../../../../harness/needs.ts";
import {
  missingMkfsXfs,
  missingShellcheck,
  missingSystemd,
  SHELLCHECK,
  SYSTEMD,
  SYSTEMD_ANALYZE,
} from "../../../../harness/systemd.ts";
import { times } from "../../../../harness/thorough.ts";
import { ec2Values, fullValues, instanceOf, secretValues, unitNamed, unitsOf } from "./stacks.ts";

const small = instanceOf(ec2Values);

const full = instanceOf(fullValues);

const withSecrets = instanceOf(secretValues);

const instances = [
  ["a small stack", small],
  ["a stack with everything", full],
  ["a stack with secrets", withSecrets],
] as const;

function taskNamed({ tasks }: InstancePlan, name: string): InstanceTaskPlan {
  const task = tasks.find((one) => one.name === name);
  if (task === undefined) throw new Error(`No task ${name}: ${tasks.map((one) => one.name).join(", ")}`);
  return task;
}

/** Names of the documents of a stack. */
const documents = ({ tasks }: InstancePlan) => tasks.map(({ document }) => document.name);

test("the machine has the pool's instance type, the network's first zone and an image of AWS", () => {
  expect(small).toMatchObject({
    instanceType: "g5.xlarge",
    zone: "a",
    amiParameter:
      "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id",
    rootDiskGiB: 150,
    databaseDisk: { sizeGiB: 20, deviceName: "/dev/sdf" },
    isSpot: false,
    capacityReservationId: null,
    isProtected: false,
  });
});

test("the root disk is large enough for the machine's image whatever the stack file says", () => {
  const sizes = [20, 74, 76].map(
    (diskGiB) =>
      instanceOf({ ...ec2Values, pools: [{ name: "gpu", instanceType: "p4d.24xlarge", diskGiB }] })
        .rootDiskGiB,
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
  expect(instanceOf({ ...ec2Values, pools: [spot] }).isSpot).toBe(true);
  const reserved = { ...pool, capacityReservationId: "cr-0123456789abcdef0" };
  expect(instanceOf({ ...ec2Values, pools: [reserved] }).capacityReservationId).toBe("cr-0123456789abcdef0");
  expect(instanceOf({ ...ec2Values, retain: ["demo"] }).isProtected).toBe(true);
  expect(instanceOf({ ...ec2Values, pools: [{ ...pool, zone: "b" }] }).zone).toBe("b");
});

test.each(instances)("user data of %s is below 16 KiB", (_, { userData }) => {
  expect(Buffer.byteLength(userData)).toBeLessThan(16_384);
});

test("user data checks the number of GPUs and mounts the store over TLS with the machine's role", () => {
  expect(full.userData).toContain('"$(nvidia-smi --list-gpus | wc -l)" -eq 8');
  expect(small.userData).toMatch(/efs \S*,tls,iam,accesspoint=\$\{accessPointId\} 0 0/);
});

test("tasks run in the order setup, builds, services", () => {
  const names = small.tasks.map(({ name }) => name);
  expect(names.map((name) => name.replace(/-[0-9a-f]{12}$/, ""))).toEqual([
    "setup",
    "build-gpt2-medium",
    "build-encoders",
    "services",
  ]);
  expect(small.tasks.map(({ after }) => after)).toEqual([[], ...names.slice(0, -1).map((name) => [name])]);
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

test("units of many models are spread over several documents without repetition", () => {
  expect(full.tasks.map(({ name }) => name)).toContain("files-1");
  const names = unitsOf(full).map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  expect(names).toEqual(
    expect.arrayContaining(["engine-room-gateway.service", "engine-room-mllama.service"]),
  );
});

test("a build longer than Systems Manager's time limit is waited for by several tasks", () => {
  const instance = instanceOf(ec2Values, (stack) => ({
    ...stack,
    containers: stack.containers.map((one) =>
      one.role === "engineBuild" ? { ...one, timeoutSeconds: 15_000 } : one,
    ),
  }));
  const parts = instance.tasks.filter(({ name }) => name.startsWith("build-gpt2-medium"));
  expect(parts.map(({ units }) => units.length)).toEqual([1, 0, 0]);
  expect(parts.map(({ script }) => script.includes("systemctl start --no-block"))).toEqual([
    true,
    true,
    true,
  ]);
  expect(parts.map(({ script }) => /^systemctl start --no-block/m.test(script))).toEqual([
    true,
    false,
    false,
  ]);
  expect(parts.map(({ script }) => script.endsWith('give_up "did not end in the time it has"'))).toEqual([
    false,
    false,
    true,
  ]);
});

test("a build stops the server whose GPU it needs and no other", () => {
  const stops = (instance: InstancePlan, build: RegExp) =>
    instance.tasks
      .find(({ name }) => build.test(name))
      ?.script.match(/^systemctl stop \S+/gm)
      ?.slice(0, -1);
  expect(stops(small, /^build-gpt2/)).toEqual(["systemctl stop engine-room-gpt2-medium.service"]);
  // Of eight GPUs five serve.
  expect(stops(full, /^build-llava-1.5/)).toEqual([]);
});

test("a changed image changes the documents of setup and services, but not of builds without it", () => {
  const other = instanceOf(ec2Values, (stack) => ({
    ...stack,
    images: stack.images.map((image) =>
      image.name === "services" && image.kind === "locked"
        ? { ...image, reference: image.reference.replace(/0{64}$/, "1".repeat(64)) }
        : image,
    ),
  }));
  const same = documents(small).map((name, index) => name === documents(other)[index]);
  expect(same).toEqual([false, true, true, false]);
});

test("a changed build changes the document of services", () => {
  const other = instanceOf(ec2Values, (stack) => ({
    ...stack,
    containers: stack.containers.map((one) =>
      one.role === "encoderBuild" ? { ...one, timeoutSeconds: 9 } : one,
    ),
  }));
  expect(documents(small).map((name, index) => name === documents(other)[index])).toEqual([
    true,
    true,
    false,
    false,
  ]);
});

test("a document above Systems Manager's limit is refused with its size", () => {
  const huge = () =>
    instanceOf(ec2Values, (stack) => ({
      ...stack,
      containers: stack.containers.map((one) =>
        one.role === "gateway" ? { ...one, files: { "/etc/a.json": "x".repeat(60_000) } } : one,
      ),
    }));
  expect(huge).toThrow(/Systems Manager takes 60000/);
});

test("the task of services ends when the gateway and every service are healthy", () => {
  expect(taskNamed(small, "services").script).toContain("http://127.0.0.1:8080/healthz");
  expect(taskNamed(small, "services").script.match(/health=healthy/g)).toHaveLength(5);
});

test("a server's unit requires its build and the setup, a gateway's unit wants its databases", () => {
  const [build] = small.tasks
    .filter(({ name }) => name.startsWith("build-gpt2"))
    .flatMap(({ units }) => units);
  const server = unitNamed(small, "engine-room-gpt2-medium.service").text;
  expect(server).toMatch(new RegExp(`^Requires=.*engine-room\\.images\\.service.* ${build?.name}$`, "m"));
  expect(server).toMatch(new RegExp(`^After=.*${build?.name}`, "m"));
  expect(server).toContain("RequiresMountsFor=/srv/engine-room/store\n");
  const gateway = unitNamed(small, "engine-room-gateway.service").text;
  expect(gateway).toContain("Wants=engine-room-mongo.service engine-room-vector.service\n");
});

test("a service restarts and a build runs once, each with its own time limits", () => {
  const server = unitNamed(small, "engine-room-gpt2-medium.service").text;
  expect(server).toMatch(/^Restart=always$/m);
  expect(server).toMatch(/^StartLimitBurst=5$/m);
  expect(server).toMatch(/^TimeoutStopSec=75$/m);
  expect(server).toMatch(/^ExecStop=\/usr\/bin\/docker \\\n {2}stop \\\n {2}-t \\\n {2}60 /m);
  const build = unitsOf(small).find(({ role }) => role === "engineBuild")?.text;
  expect(build).toMatch(/^Type=oneshot\nRemainAfterExit=yes$/m);
  expect(build).toMatch(/^TimeoutStartSec=2140$/m);
  expect(build).not.toMatch(/^(Restart|WantedBy)=/m);
});

test("files of containers are mounted read-only from the machine", () => {
  const { text, files } = unitNamed(small, "engine-room-gateway.service");
  const [path] = Object.keys(files);
  expect(path).toBe("/etc/engine-room/gateway/etc/engine-room/gateway.json");
  expect(files[path ?? ""]?.mode).toBe("0444");
  expect(text).toContain(`--volume=${path}:/etc/engine-room/gateway.json:ro`);
});

test("several GPUs are quoted as one field for Docker", () => {
  const instance = instanceOf(fullValues, (stack) => ({
    ...stack,
    containers: stack.containers.map((one) => (one.model === "llava" ? { ...one, gpus: [1, 2] } : one)),
  }));
  expect(unitNamed(instance, "engine-room-llava.service").text).toContain('"--gpus=\\"device=1,2\\""');
});

test("the stack makes its secrets or uses existing ones, and units that read them require the secrets unit", () => {
  expect(withSecrets.stackSecrets).toEqual(["hubToken", "mongoUri", "vectorApiKey"]);
  expect(full.secrets).toEqual([
    {
      name: "hubToken",
      secretName: null,
      arn: "arn:aws:secretsmanager:eu-west-1:111122223333:secret:hub-AbCdEf",
      file: "/run/engine-room/secrets/hub-token",
    },
  ]);
  expect(unitNamed(withSecrets, "engine-room-gateway.service").text).toMatch(
    /^Requires=.*engine-room\.secrets/m,
  );
  expect(unitNamed(withSecrets, "engine-room-gpt2-medium.service").text).not.toContain("engine-room.secrets");
  expect(small.secrets).toEqual([]);
  expect(unitsOf(small).map(({ name }) => name)).not.toContain("engine-room.secrets.service");
});

test("secrets are in memory only and not in the plan", () => {
  const program = Object.values(unitNamed(full, "engine-room.secrets.service").files)[0]?.text ?? "";
  expect(program).toContain(
    "retry fetch /run/engine-room/secrets/hub-token arn:aws:secretsmanager:eu-west-1",
  );
  expect(program).toMatch(/ eu-west-1$/m);
  for (const secret of ["v1:abc", "v1:def", "v1:ghi"])
    expect(JSON.stringify(withSecrets)).not.toContain(secret);
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

/** Any text that a program can be given. */
const word = fc
  .string({
    unit: fc.oneof(
      fc.constantFrom(..."\"'\\$%{};#\n\t\r -=~`"),
      fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
    ),
  })
  .filter((text) => !text.includes("\0") && text.isWellFormed());

/** As systemd.syntax(7) and systemd.service(5) have it, for what is between double quotes. */
function wordsOf(line: string): readonly string[] {
  const joined = line.replace(/\\\n/g, " ");
  const words = [...joined.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/gu)].map(([, quoted, plain]) =>
    quoted === undefined
      ? (plain ?? "")
      : quoted.replace(/\\(?:x([0-9a-f]{2})|(.))/gu, (_, hex, one) =>
          hex === undefined ? one : String.fromCharCode(Number.parseInt(hex, 16)),
        ),
  );
  return words.map((text) => text.replaceAll("%%", "%").replaceAll("$$", "$"));
}

test("a parsed command line has the same arguments", () => {
  fc.assert(
    fc.property(fc.array(word), (words) => {
      const argv = ["/usr/bin/docker", ...words];
      expect(wordsOf(commandLine(argv))).toEqual(argv);
    }),
    { numRuns: times(100, 1000) },
  );
});

test("a command line has no specifier, variable, comment or control character for systemd", () => {
  fc.assert(
    fc.property(fc.array(word), (words) => {
      const lines = commandLine(["/usr/bin/docker", ...words]).split("\n");
      expect(lines).toHaveLength(words.length + 1);
      for (const line of lines) {
        expect(line.replaceAll("%%", "").replaceAll("$$", "")).not.toMatch(/[%$]/);
        expect(line.trimStart()).not.toMatch(/^[#;]/);
        // biome-ignore lint/suspicious/noControlCharactersInRegex: none may be left.
        expect(line).not.toMatch(/[\u0000-\u001f]/);
      }
    }),
    { numRuns: times(100, 1000) },
  );
});

test.each(["a\0b", "\ud800"])("%j is refused as an argument", (text) => {
  expect(() => commandLine(["/usr/bin/docker", text])).toThrow("No program can be given the argument");
});

test("a unit's text keeps the order of its lines", () => {
  const sections = {
    Unit: [
      ["After", "b"],
      ["After", "a"],
    ],
    Service: [["Type", "exec"]],
  } as const;
  expect(unitText(sections)).toBe("[Unit]\nAfter=b\nAfter=a\n\n[Service]\nType=exec\n");
});

describe("systemd itself", needs(missingSystemd), () => {
  test("systemd reads the same arguments from a command line", () => {
    const argv = [
      "/bin/echo",
      "",
      "#a",
      ";",
      "a\nb\tc",
      "a \"b\" 'c' \\ \\x41 \\n",
      "100%d %%",
      "--env=A=ü €",
    ];
    // Printed before variables are put in.
    expect(loadedCommand(commandLine([...argv, "$HOME"]))).toEqual([...argv, "$$HOME"]);
  });
});

const NOBODY = 65_534;

/** What systemd says that it would run: its test mode starts nothing. */
function loadedCommand(command: string): readonly string[] {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-units-"));
  try {
    mkdirSync(join(folder, "run"));
    // It is nobody's: as root's it would want to be the machine's own.
    const owner = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
    if (owner.uid !== undefined)
      for (const path of [folder, join(folder, "run")]) chownSync(path, NOBODY, NOBODY);
    writeFileSync(
      join(folder, "words.service"),
      unitText({
        Service: [
          ["Type", "oneshot"],
          ["ExecStart", command],
        ],
      }),
    );
    const run = spawnSync(SYSTEMD, ["--user", "--test", "--unit=words.service"], {
      ...owner,
      encoding: "utf8",
      timeout: 60_000,
      maxBuffer: 16 * 2 ** 20,
      env: {
        ...process.env,
        HOME: join(folder, "run"),
        XDG_RUNTIME_DIR: join(folder, "run"),
        SYSTEMD_UNIT_PATH: `${folder}:`,
        SYSTEMD_LOG_TARGET: "console",
        SYSTEMD_LOG_LEVEL: "debug",
        LC_ALL: "C.UTF-8",
      },
    });
    const output = `${run.stdout}${run.stderr}`;
    const [, line] = /Command Line: (\/bin\/echo .*)$/m.exec(output) ?? [];
    if (line === undefined) throw new Error(`systemd does not print the command: ${output.slice(-2000)}`);
    return shellWords(line);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** It quotes as for a shell, with the escapes of C. */
function shellWords(line: string): readonly string[] {
  return [...line.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/gu)].map(([, quoted, plain]) =>
    (quoted ?? plain ?? "").replace(/\\(.)/gu, (_, one: string) => ({ n: "\n", t: "\t" })[one] ?? one),
  );
}

const LINK = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0";

const SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin";

const MIB = 2 ** 20;

/** mkfs.xfs makes none below 300 MiB; the file has holes. */
const DISK_BYTES = 512 * MIB;

/** The magic number of ext2 in its superblock, which says nothing else. */
const EXT2 = Buffer.from([0x53, 0xef]);

const EXT2_OFFSET = 1080;

test("the databases' disk is found by its volume id", () => {
  const serial = volumeSerial("vol-0123456789abcdef0");
  const texts = databaseDiskFiles().map(({ text }) => filledText(text, { databaseVolumeSerial: serial }));
  expect(texts.filter((text) => text.includes(LINK))).toHaveLength(2);
  expect(texts.join("\n")).not.toMatch(/\/dev\/(sd|xvd|nvme)/);
});

test("the databases' disk is mounted after formatting, and a failure does not stop the boot", () => {
  const unit = databaseDiskFiles().find(({ path }) => path.endsWith("/srv-databases.mount"))?.text ?? "";
  expect(unit).toContain("Requires=engine-room.format-databases.service\nAfter=engine-room.format-databases");
  expect(unit).toContain("WantedBy=multi-user.target\n");
  expect(unit).toContain("DefaultDependencies=no\n");
});

describe("what needs the disk", () => {
  const small = instanceOf(ec2Values);
  const full = instanceOf(fullValues);
  const withSecrets = instanceOf(secretValues);
  const documents = ({ tasks }: InstancePlan) => tasks.map(({ document }) => document.name);
  const programOf = (instance: InstancePlan) =>
    Object.values(unitNamed(instance, "engine-room.network.service").files)[0]?.text ?? "";

  test("kept data are on the databases' disk and owned by their servers' users", () => {
    const program = programOf(full);
    expect(program).toContain("\ninstall -d -m 0700 -o 999 -g 999 /srv/databases/demo-mongo\n");
    expect(program).toContain("\ninstall -d -m 0700 -o 1000 -g 1000 /srv/databases/demo-vector\n");
    expect(program).toContain("--opt=device=/srv/databases/demo-mongo ");
    expect(program).toMatch(/^make volume demo-scratch --label/m);
    expect(programOf(small)).toContain(
      "\ninstall -d -m 0700 -o 1000 -g 1000 /srv/databases/demo-mock-mongo\n",
    );
  });

  test("databases and network require the databases' disk, the gateway does not", () => {
    const disk = "RequiresMountsFor=/srv/databases\n";
    for (const instance of [small, full]) {
      expect(unitNamed(instance, "engine-room-mongo.service").text).toContain(disk);
      expect(unitNamed(instance, "engine-room-vector.service").text).toContain(disk);
      expect(unitNamed(instance, "engine-room.network.service").text).toContain(disk);
      expect(unitNamed(instance, "engine-room-gateway.service").text).not.toContain(disk);
    }
    expect(unitsOf(withSecrets).filter(({ text }) => text.includes("/srv/databases"))).toEqual([]);
    expect(programOf(withSecrets)).not.toContain("xfs_growfs");
  });

  test("a larger databases' disk changes the setup, which grows the file system", () => {
    const larger = instanceOf({ ...ec2Values, databaseStorage: { sizeGiB: 30 } });
    expect(programOf(larger)).toContain(`-ge ${30 * 2 ** 30} ]`);
    expect(programOf(larger)).toMatch(/^retry is_grown\nxfs_growfs \/srv\/databases /m);
    const same = documents(small).map((name, index) => name === documents(larger)[index]);
    expect(same).toEqual([false, true, true, false]);
  });
});

/** By the program of the machine itself: with blkid and mkfs.xfs of this one, and a stand-in for udev. */
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

  /** @param programs - Those that stand in for the system's, by their names; udev knows no files. */
  function format(programs: Readonly<Record<string, string>> = {}) {
    const before = bytes();
    for (const [name, text] of Object.entries({ udevadm: "exit 0", ...programs }))
      writeFileSync(join(folder, name), `#!/bin/bash\n${text}\n`, { mode: 0o755 });
    const program = databaseDiskFiles().find(({ path }) => path.endsWith("/format-databases"))?.text ?? "";
    const text = filledText(program, { databaseVolumeSerial: "vol0123456789abcdef0" }).replaceAll(LINK, disk);
    const { status, stderr } = spawnSync("bash", ["-s"], {
      input: text,
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

  test.each([4, 8])("a disk is not formatted where blkid exits with %i", (code) => {
    expect(format({ blkid: `exit ${code}` })).toMatchObject({
      status: 1,
      stderr: expect.stringContaining(`blkid ends with ${code}`),
      isUntouched: true,
    });
  });

  test("an unreadable disk that blkid calls empty is not formatted", () => {
    expect(format({ blkid: "exit 2", cmp: "exit 2" })).toMatchObject({ status: 1, isUntouched: true });
  });

  test("formatting fails where the disk does not appear", () => {
    expect(format({ udevadm: "exit 1" })).toMatchObject({ status: 1, isUntouched: true });
  });

  /** Where everything begins that a disk can have. */
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

const VALUES = {
  fileSystemId: "fs-1",
  accessPointId: "fsap-1",
  databaseVolumeSerial: "vol0123456789abcdef0",
};

const diskFiles = databaseDiskFiles().map((file) => ({ ...file, text: filledText(file.text, VALUES) }));

/** Of the user data, by their names. */
const diskUnits = Object.fromEntries(
  diskFiles.flatMap(({ path, mode, text }) => (mode === "0644" ? [[basename(path), text]] : [])),
);

describe("systemd-analyze verify", needs(missingSystemd), () => {
  /** Where Docker and the programs of the setup stand. */
  let root = "";
  beforeAll(() => {
    root = mkdtempSync(join(tmpdir(), "engine-room-root-"));
    cpSync("/usr/lib/systemd/system", join(root, "usr/lib/systemd/system"), {
      recursive: true,
      verbatimSymlinks: true,
    });
    const programs = ["docker", "fetch-secrets", "format-databases", "make-network", "pull-images"];
    for (const program of programs) {
      const file = join(root, program === "docker" ? "usr/bin" : "opt/engine-room", program);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, "#!/bin/sh\n", { mode: 0o755 });
    }
  });
  afterAll(() => rmSync(root, { recursive: true, force: true }));

  test.each(instances)("systemd-analyze accepts the units of %s", (_, instance) => {
    const units = Object.fromEntries(unitsOf(instance).map(({ name, text }) => [name, text]));
    expect(Object.keys(diskUnits)).toHaveLength(2);
    expect(verified({ ...units, ...diskUnits })).toEqual({ status: 0, said: "" });
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
  test.each(instances)("shellcheck accepts the scripts of %s", (_, instance) => {
    const programs = unitsOf(instance).flatMap(({ files }) =>
      Object.values(files).flatMap(({ text, mode }) => (mode === "0755" ? [text] : [])),
    );
    const userData = filledText(instance.userData, VALUES);
    const own = diskFiles.flatMap(({ text, mode }) => (mode === "0755" ? [text] : []));
    const scripts = [userData, ...own, ...programs, ...instance.tasks.map(({ script }) => script)];
    expect(checked(...scripts)).toBe("");
  });

  test("shellcheck reports an unquoted variable", () => {
    expect(checked("#!/bin/bash\nrm $1\n")).toContain("SC2086");
  });

  /** What it says of all of them, in one run. */
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
