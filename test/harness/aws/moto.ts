/**
 * A stand-in for AWS's APIs: moto (PyPI) on 127.0.0.1. It stores what calls create and answers as AWS does, but accepts
 * nearly every argument; `service-models.ts` finds what AWS itself would refuse. It lacks: EKS's add-ons, access
 * entries, pod identity, versions and machines of node groups; EFS's backups; Systems Manager's parameters of images,
 * and sessions; Service Quotas except those of VPCs; and the price list. It computes digests that ECR is not given from
 * layers, and its list of resources by tag lacks EKS, ECR, addresses and endpoints.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { dyingWithUs, lastLines } from "../../../components/local/provider/commands.ts";
import { awsPython } from "./python.ts";

/** moto's only account, by its documentation. */
export const MOTO_ACCOUNT = "123456789012";

const START_TIMEOUT_MILLISECONDS = 60_000;

export interface AwsStandIn {
  /** `http://127.0.0.1:<port>`. */
  readonly url: string;
  /** Returns when it is gone. It goes with this process in any case. */
  stop(): Promise<void>;
}

/**
 * Environment of a program that is to call a stand-in and never AWS: endpoint, invalid keys, the region, and none of
 * the user's own files with keys or settings.
 */
export function motoEnvironment(url: string, region: string): Readonly<Record<string, string>> {
  return {
    AWS_ENDPOINT_URL: url,
    AWS_REGION: region,
    AWS_DEFAULT_REGION: region,
    AWS_ACCESS_KEY_ID: "testing",
    AWS_SECRET_ACCESS_KEY: "testing",
    AWS_CONFIG_FILE: "/dev/null",
    AWS_SHARED_CREDENTIALS_FILE: "/dev/null",
    AWS_EC2_METADATA_DISABLED: "true",
    AWS_MAX_ATTEMPTS: "1",
  };
}

/** Makes a stand-in forget all that calls have made. */
export async function resetMoto(url: string): Promise<void> {
  const answer = await fetch(`${url}/moto-api/reset`, { method: "POST" });
  if (!answer.ok) throw new Error(`moto answered ${answer.status} to a reset: ${await answer.text()}`);
}

/** @throws Error with the end of its output when it does not start. */
export async function startMoto(): Promise<AwsStandIn> {
  const argv = [await awsPython(), "-I", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"];
  const [program, args] = dyingWithUs(argv);
  const child = spawn(program, args, {
    cwd: "/",
    env: {
      PATH: process.env.PATH,
      PYTHONUNBUFFERED: "1",
      NO_COLOR: "1",
      // No role of the tests is given AWS's own policies, and they take two seconds and 220 MB.
      MOTO_IAM_LOAD_MANAGED_POLICIES: "false",
    },
    stdio: ["ignore", "ignore", "pipe"],
  });
  return {
    url: await addressOf(child),
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/** It listens on a free port and prints it. */
async function addressOf(child: ChildProcess): Promise<string> {
  const said: string[] = [];
  // Read to the end of its life: it writes a line for each request, and would stop at a full pipe.
  const lines = createInterface({ input: child.stderr as NodeJS.ReadableStream });
  return new Promise((resolve, reject) => {
    const fail = (what: string) => reject(new Error(`moto ${what}: ${lastLines(said.join("\n"), 3)}`));
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      fail(`has not said its address in ${START_TIMEOUT_MILLISECONDS / 1000} s`);
    }, START_TIMEOUT_MILLISECONDS);
    lines.on("line", (line) => {
      const url = /Running on (http:\/\/127\.0\.0\.1:\d+)/.exec(line)?.[1];
      if (url === undefined) return void (said.length < 100 && said.push(line));
      clearTimeout(timer);
      resolve(url);
    });
    child.once("error", (error) => fail(`did not start (${error.message})`));
    child.once("exit", (code) => {
      clearTimeout(timer);
      fail(`ended with ${code}`);
    });
  });
}
