/** A host with containers and networks of one stack, where they can be removed. */
import type { HostContainer } from "../../../scripts/docker-host/containers.ts";
import type { HostProbe } from "../../../scripts/preflight/host-probe.ts";

export function container(name: string, state: Partial<HostContainer["State"]> = {}): HostContainer {
  return {
    Id: `id-${name}`,
    Name: `/${name}`,
    RestartCount: 0,
    State: { Status: "running", ExitCode: 0, StartedAt: "2026-01-01T00:00:00Z", ...state },
  };
}

export interface FakeEngine {
  readonly probe: HostProbe;
  readonly containers: HostContainer[];
  readonly networks: string[];
}

export function fakeEngine(
  containers: readonly HostContainer[],
  networks: readonly string[] = [],
): FakeEngine {
  const engine = { containers: [...containers], networks: [...networks] };
  const answer = (stdout: string) => ({ exitCode: 0, stdout, stderr: "" });
  const lines = (words: readonly string[]) => answer(words.map((word) => `${word}\n`).join(""));
  const isOfStack = (args: readonly string[]) => args.includes("label=engine-room.stack=room");
  const probe: HostProbe = {
    uri: "unix:///fake.sock",
    docker: async (args) => {
      const [command, ...rest] = args;
      const words = rest.filter((word) => !word.startsWith("-"));
      if (command === "ps" && isOfStack(args)) return lines(engine.containers.map(({ Id }) => Id));
      if (command === "inspect")
        return answer(JSON.stringify(engine.containers.filter(({ Id }) => words.includes(Id))));
      if (command === "rm") {
        engine.containers = engine.containers.filter(({ Name }) => !words.includes(Name.slice(1)));
        return lines(words);
      }
      if (command === "network" && words[0] === "ls" && isOfStack(args)) return lines(engine.networks);
      if (command === "network" && words[0] === "rm") {
        engine.networks = engine.networks.filter((id) => !words.includes(id));
        return lines(words.slice(1));
      }
      return { exitCode: 1, stdout: "", stderr: `nobody expects docker ${args.join(" ")}\n` };
    },
    shell: async () => {
      throw new Error("nothing here runs on the host itself");
    },
  };
  return {
    probe,
    get containers() {
      return engine.containers;
    },
    get networks() {
      return engine.networks;
    },
  };
}
