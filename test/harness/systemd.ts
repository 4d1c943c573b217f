/** Programs of Debian's packages that check units, scripts and disks, where this machine has them. */
import { existsSync } from "node:fs";
import { CHECKERS } from "../../scripts/setup/system-packages.ts";

export const SYSTEMD = CHECKERS.systemd.path;
export const SYSTEMD_ANALYZE = CHECKERS.systemdAnalyze.path;
export const SHELLCHECK = CHECKERS.shellcheck.path;

/** Why tests with systemd's programs are skipped; undefined where they are not. */
export const missingSystemd = missing("systemd") ?? missing("systemdAnalyze");
export const missingShellcheck = missing("shellcheck");
export const missingMkfsXfs = missing("mkfsXfs");

function missing(checker: keyof typeof CHECKERS): string | undefined {
  const { path, debianPackage } = CHECKERS[checker];
  return existsSync(path) ? undefined : `no ${path}; Debian's package ${debianPackage} has it`;
}
