/** Ports of loopback for programs that a test starts. */
import { randomInt } from "node:crypto";
import { isFree } from "../../components/local/provider/ports.ts";

/**
 * Below the ports that local stacks choose (from 20,000), and below those of outgoing connections (from 32,768), of which a connection of
 * another test could take a port before the program listens.
 */
const [FIRST_PORT, LAST_PORT] = [10_000, 19_999];

/** A port without a listener. */
export async function freePort(): Promise<number> {
  let port: number;
  do port = randomInt(FIRST_PORT, LAST_PORT + 1);
  while (!(await isFree(port)));
  return port;
}

/** Different ports without a listener. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) ports.add(await freePort());
  return [...ports];
}
