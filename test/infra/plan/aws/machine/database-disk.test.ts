/** What the machine does with the databases' disk, by the program itself: with this machine's blkid, and stand-ins for udev and mkfs. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { databaseDiskFiles, volumeSerial } from "../../../../../infra/plan/aws/machine/database-disk.ts";
import { filledText } from "../../../../../infra/plan/aws/placeholders.ts";
import type { InstancePlan } from "../../../../../infra/plan/aws/types.ts";
import { ec2Values, fullValues, instanceOf, secretValues, unitNamed, unitsOf } from "./stacks.ts";

const LINK = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0";
const SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin";
const MIB = 2 ** 20;

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

const missing = ["/usr/sbin/blkid", "/sbin/blkid"].some(existsSync) ? "" : " (skipped: no blkid)";

describe.skipIf(missing !== "")(`formatting${missing}`, () => {
  let folder = "";
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-disk-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  /** @param more - Programs that stand in for those of the system, by their names. */
  function format(write: (file: string) => void, more: Readonly<Record<string, string>> = {}) {
    const disk = join(folder, "disk");
    writeFileSync(disk, "");
    truncateSync(disk, 64 * MIB);
    write(disk);
    const formatted = join(folder, "formatted");
    const programs = { udevadm: "exit 0", "mkfs.xfs": `echo "$@" >${formatted}`, ...more };
    for (const [name, text] of Object.entries(programs))
      writeFileSync(join(folder, name), `#!/bin/bash\n${text}\n`, { mode: 0o755 });
    const program = databaseDiskFiles().find(({ path }) => path.endsWith("/format-databases"))?.text ?? "";
    const text = filledText(program, { databaseVolumeSerial: "vol0123456789abcdef0" }).replaceAll(LINK, disk);
    const { status, stderr } = spawnSync("bash", ["-s"], {
      input: text,
      encoding: "utf8",
      timeout: 30_000,
      env: { PATH: `${folder}:${SYSTEM_PATH}` },
    });
    const words = existsSync(formatted) ? readFileSync(formatted, "utf8").trim() : null;
    return { status, stderr, words: words?.replace(disk, "DISK") };
  }

  test("gives an empty disk a file system", () => {
    expect(format(() => {})).toEqual({ status: 0, stderr: "", words: "-q DISK" });
  });

  test("leaves one alone that has any", () => {
    // The magic number of ext2 in its superblock, which says nothing else.
    expect(format((disk) => writeAt(disk, Buffer.from([0x53, 0xef]), 1080))).toMatchObject({
      status: 0,
      words: undefined,
    });
    // A boot sector with one partition.
    const table = Buffer.alloc(512);
    table.set([0x80, 0, 2, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 16, 0, 0], 446);
    table.set([0x55, 0xaa], 510);
    expect(format((disk) => writeAt(disk, table, 0))).toMatchObject({ status: 0, words: undefined });
  });

  test("leaves one alone that has anything", () => {
    const { status, stderr, words } = format((disk) => writeAt(disk, Buffer.from("data"), 4096));
    expect({ status, words }).toEqual({ status: 1, words: undefined });
    expect(stderr).toContain("is not empty either");
  });

  test.each([4, 8])("formats nothing where blkid ends with %i", (code) => {
    const { status, stderr, words } = format(() => {}, { blkid: `exit ${code}` });
    expect({ status, words }).toEqual({ status: 1, words: undefined });
    expect(stderr).toContain(`blkid ends with ${code}`);
  });

  test("formats nothing that it can't read, which blkid calls empty", () => {
    const unreadable = format(() => {}, { blkid: "exit 2", cmp: "exit 2" });
    expect(unreadable).toMatchObject({ status: 1, words: undefined });
  });

  test("fails where the disk does not come", () => {
    expect(format(() => {}, { udevadm: "exit 1" })).toMatchObject({ status: 1, words: undefined });
  });

  function writeAt(disk: string, bytes: Buffer, offset: number): void {
    const all = readFileSync(disk);
    bytes.copy(all, offset);
    writeFileSync(disk, all);
  }
});
