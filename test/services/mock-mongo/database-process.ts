/** A database as a process with its official client, as the tests of both databases use it. */
import { afterAll, beforeAll } from "vitest";
import { type ServiceProcess, temporaryFolder } from "./service-process.ts";

/** How a kind of database is started and reached. */
export interface DatabaseKind<Running extends { readonly service: ServiceProcess }, Client> {
  /** For names of folders. */
  readonly name: string;
  start(data: string, ...args: string[]): Promise<Running>;
  connect(running: Running): Client;
  disconnect(client: Client): Promise<void>;
}

/** Runs a test against a server and a client of its own. @param args - Of the process. */
export async function withDatabase<Running extends { readonly service: ServiceProcess }, Client>(
  kind: DatabaseKind<Running, Client>,
  run: (client: Client, running: Running) => Promise<void>,
  ...args: string[]
): Promise<void> {
  const folder = temporaryFolder(kind.name);
  const running = await kind.start(folder.path, ...args);
  const client = kind.connect(running);
  try {
    await run(client, running);
  } finally {
    await kind.disconnect(client);
    await running.service.kill("SIGKILL");
    folder.remove();
  }
}

/** One server and one client for all tests of a file. */
export function useDatabase<Running extends { readonly service: ServiceProcess }, Client>(
  kind: DatabaseKind<Running, Client>,
): {
  readonly running: () => Running;
  readonly client: () => Client;
  /** A number that no other test has. */
  readonly unused: () => number;
} {
  const folder = temporaryFolder(`${kind.name}-client`);
  let running: Running;
  let client: Client;
  let used = 0;
  beforeAll(async () => {
    running = await kind.start(folder.path);
    client = kind.connect(running);
  });
  afterAll(async () => {
    await kind.disconnect(client);
    await running.service.kill("SIGTERM");
    folder.remove();
  });
  return {
    running: () => running,
    client: () => client,
    unused() {
      used += 1;
      return used;
    },
  };
}
