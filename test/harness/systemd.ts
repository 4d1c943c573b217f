/** Programs of Debian's packages that check units, scripts and disks, if this machine has them. */
import { existsSync } from "node:fs";
import { TEST_PROGRAMS } from "../../scripts/setup/system-packages.ts";

export const SYSTEMD = TEST_PROGRAMS.systemd.path;
export const SYSTEMD_ANALYZE = TEST_PROGRAMS.systemdAnalyze.path;
export const SHELLCHECK = TEST_PROGRAMS.shellcheck.path;

/** Reason why tests with systemd's programs are skipped; undefined if they are installed. */
export const missingSystemd = missing("systemd") ?? missing("systemdAnalyze");
export const missingShellcheck = missing("shellcheck");
export const missingMkfsXfs = missing("mkfsXfs");

function missing(program: keyof typeof TEST_PROGRAMS): string | undefined {
  const { path, debianPackage } = TEST_PROGRAMS[program];
  return existsSync(path) ? undefined : `no ${path}; Debian's package ${debianPackage} has it`;
}
