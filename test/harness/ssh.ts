/** The machine's own ssh: Debian's package openssh-client has it. */
import { spawnSync } from "node:child_process";

/** Reason why tests with ssh are skipped; undefined if it is installed. */
export const missingSsh =
  spawnSync("ssh", ["-V"]).status === 0
    ? undefined
    : "no ssh on PATH; Debian's package openssh-client has it";
