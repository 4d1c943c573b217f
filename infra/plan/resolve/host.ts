/** Which stacks have one machine. */
import type { GpuStackConfig } from "../../config/config.ts";

/** Whether one machine runs everything, as containers. */
export function isOnHost(config: GpuStackConfig): boolean {
  return config.platform === "docker" || (config.platform === "aws" && config.compute === "ec2");
}
