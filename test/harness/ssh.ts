/** The machine's own ssh: Debian's package openssh-client has it. */
import { spawnSync } from "node:child_process";

/** Why tests with it are skipped; undefined where they are not. */
export const missingSsh =
  spawnSync("ssh", ["-V"]).status === 0
    ? undefined
    : "no ssh on PATH; Debian's package openssh-client has it";
