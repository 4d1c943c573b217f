import { execFileSync } from "node:child_process";

/** Whether this machine has a kubectl. */
export function hasKubectl(): boolean {
  try {
    execFileSync("kubectl", ["version", "--client"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
