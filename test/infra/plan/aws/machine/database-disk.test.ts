/** What the machine does with the databases' disk, by the program itself: with this machine's blkid and mkfs.xfs, and a stand-in for udev. */
import { spawnSync } from "node:child_process";
import {
  closeSync,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { databaseDiskFiles, volumeSerial } from "../../../../../infra/plan/aws/machine/database-disk.ts";
import { filledText } from "../../../../../infra/plan/aws/placeholders.ts";
import type { InstancePlan } from "../../../../../infra/plan/aws/types.ts";
import { missingMkfsXfs } from "../../../../harness/systemd.ts";
import { ec2Values, fullValues, instanceOf, secretValues, unitNamed, unitsOf } from "./stacks.ts";

const LINK = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0";
const SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin";
const MIB = 2 ** 20;
/** mkfs.xfs makes none below 300 MiB; the file has holes. */
const DISK_BYTES = 512 * MIB;
/** The magic number of ext2 in its superblock, which says nothing else. */
const EXT2 = Buffer.from([0x53, 0xef]);
const EXT2_OFFSET = 1080;

test("the disk is found by its volume, whatever the order of disks", () => {
  const serial = volumeSerial("vol-0123456789abcdef0");
  const texts = databaseDiskFiles().map(({ text }) => filledText(text, { databaseVolumeSerial: serial }));
  expect(texts.filter((text) => text.includes(LINK))).toHaveLength(2);
  expect(texts.join("\n")).not.toMatch(/\/dev\/(sd|xvd|nvme)/);
});

test("it is mounted once it has its file system, and a machine starts without it", () => {
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

  test("data that are kept lie on the databases' disk as their servers' users, whatever Docker's folder is", () => {
    const program = programOf(full);
    expect(program).toContain("\ninstall -d -m 0700 -o 999 -g 999 /srv/databases/demo-mongo\n");
    expect(program).toContain("\ninstall -d -m 0700 -o 1000 -g 1000 /srv/databases/demo-vector\n");
    expect(program).toContain("--opt=device=/srv/databases/demo-mongo ");
    expect(program).toMatch(/^make volume demo-scratch --label/m);
    expect(programOf(small)).toContain(
      "\ninstall -d -m 0700 -o 1000 -g 1000 /srv/databases/demo-mock-mongo\n",
    );
  });

  test("nothing of a database starts without its disk, and what needs none does", () => {
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

  test("another size of the disk runs the setup again, which grows its file system", () => {
    const larger = instanceOf({ ...ec2Values, databaseStorage: { sizeGiB: 30 } });
    expect(programOf(larger)).toContain(`-ge ${30 * 2 ** 30} ]`);
    expect(programOf(larger)).toMatch(/^retry is_grown\nxfs_growfs \/srv\/databases /m);
    const same = documents(small).map((name, index) => name === documents(larger)[index]);
    expect(same).toEqual([false, true, true, false]);
  });
});

const missing = missingMkfsXfs === undefined ? "" : ` (skipped: ${missingMkfsXfs})`;

describe.skipIf(missing !== "")(`formatting${missing}`, () => {
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

  test("gives an empty disk XFS, and leaves it alone the next time", () => {
    expect(format()).toEqual({ status: 0, stderr: "", isUntouched: false });
    const env = { PATH: SYSTEM_PATH };
    const found = spawnSync("blkid", ["--probe", "--match-tag=TYPE", disk], { encoding: "utf8", env });
    expect(found.stdout).toContain('TYPE="xfs"');
    expect(format()).toMatchObject({ status: 0, stderr: "", isUntouched: true });
  });

  test("leaves one alone that has any", () => {
    writeAt(EXT2, EXT2_OFFSET);
    expect(format()).toMatchObject({ status: 0, isUntouched: true });
  });

  test("leaves one alone that has a partition", () => {
    const table = Buffer.alloc(512);
    table.set([0x80, 0, 2, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 16, 0, 0], 446);
    table.set([0x55, 0xaa], 510);
    writeAt(table, 0);
    expect(format()).toMatchObject({ status: 0, isUntouched: true });
  });

  test("leaves one alone that has anything", () => {
    writeAt(Buffer.from("data"), 4096);
    expect(format()).toMatchObject({
      status: 1,
      stderr: expect.stringContaining("is not empty either"),
      isUntouched: true,
    });
  });

  test("ends where only mkfs.xfs sees that there is a file system", () => {
    writeAt(EXT2, EXT2_OFFSET);
    expect(format({ blkid: "exit 2", cmp: "exit 0" })).toMatchObject({
      status: 1,
      stderr: expect.stringContaining("appears to contain an existing filesystem"),
      isUntouched: true,
    });
  });

  test.each([4, 8])("formats nothing where blkid ends with %i", (code) => {
    expect(format({ blkid: `exit ${code}` })).toMatchObject({
      status: 1,
      stderr: expect.stringContaining(`blkid ends with ${code}`),
      isUntouched: true,
    });
  });

  test("formats nothing that it can't read, which blkid calls empty", () => {
    expect(format({ blkid: "exit 2", cmp: "exit 2" })).toMatchObject({ status: 1, isUntouched: true });
  });

  test("fails where the disk does not come", () => {
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
