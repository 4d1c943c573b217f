/** Units and scripts of an instance, as systemd and shellcheck read them. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { databaseDiskFiles } from "../../../../../infra/plan/aws/machine/database-disk.ts";
import { filledText } from "../../../../../infra/plan/aws/placeholders.ts";
import {
  missingShellcheck,
  missingSystemd,
  SHELLCHECK,
  SYSTEMD_ANALYZE,
} from "../../../../harness/systemd.ts";
import { ec2Values, fullValues, instanceOf, secretValues, unitsOf } from "./stacks.ts";

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

const instances = [ec2Values, fullValues, secretValues].map((values) => instanceOf(values));

function titled(title: string, missing: string | undefined): string {
  return missing === undefined ? title : `${title} (skipped: ${missing})`;
}

describe.skipIf(missingSystemd !== undefined)(titled("systemd-analyze verify", missingSystemd), () => {
  test.each(instances)("has nothing to say of the units (%#)", (instance) => {
    const units = Object.fromEntries(unitsOf(instance).map(({ name, text }) => [name, text]));
    expect(Object.keys(diskUnits)).toHaveLength(2);
    expect(verified({ ...units, ...diskUnits })).toEqual({ status: 0, said: "" });
  });

  test("sees a key that there is not, and a unit that is missing", () => {
    const service = "[Service]\nExecStart=/usr/bin/docker\n";
    const { said } = verified({
      "engine-room-a.service": `[Unit]\nRequires=b.service\n\n${service}Restrat=always\n`,
    });
    expect(said).toContain("Restrat");
    expect(said).toContain("b.service");
  });

  /** On a root of its own, where Docker and the programs of the setup stand. */
  function verified(units: Readonly<Record<string, string>>) {
    const root = mkdtempSync(join(tmpdir(), "engine-room-root-"));
    try {
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
      const folder = join(root, "etc/systemd/system");
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
    } finally {
      rmSync(root, { recursive: true, force: true });
    }
  }
});

describe.skipIf(missingShellcheck !== undefined)(titled("shellcheck", missingShellcheck), () => {
  test.each(instances)("has nothing to say of what the machine runs (%#)", (instance) => {
    const programs = unitsOf(instance).flatMap(({ files }) =>
      Object.values(files).flatMap(({ text, mode }) => (mode === "0755" ? [text] : [])),
    );
    const userData = filledText(instance.userData, VALUES);
    const own = diskFiles.flatMap(({ text, mode }) => (mode === "0755" ? [text] : []));
    const scripts = [userData, ...own, ...programs, ...instance.tasks.map(({ script }) => script)];
    for (const script of scripts) expect(checked(script)).toBe("");
  });

  test("sees what is wrong", () => {
    expect(checked("#!/bin/bash\nrm $1\n")).toContain("SC2086");
  });

  function checked(script: string): string {
    const { stdout, stderr } = spawnSync(SHELLCHECK, ["--shell=bash", "--norc", "-"], {
      input: script,
      encoding: "utf8",
      timeout: 60_000,
    });
    return `${stdout}${stderr}`;
  }
});
