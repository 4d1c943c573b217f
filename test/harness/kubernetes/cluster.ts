/**
 * A control plane of the tests' own on loopback: etcd, API server, controllers, scheduler, and KWOK in the place of every
 * kubelet. Pods are admitted, scheduled and reported as running; no container runs.
 */
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { get as getPlain } from "node:http";
import { get as getSecure } from "node:https";
import { join } from "node:path";
import { stringify } from "yaml";
import { freePorts } from "../ports.ts";
import { eventually } from "../stack.ts";
import type { BuiltModules } from "./go-build.ts";
import { Program } from "./processes.ts";
import { ScratchFolder } from "./scratch-folder.ts";

const READY_TIMEOUT_SECONDS = 180;
const ANSWER_TIMEOUT_MILLISECONDS = 5000;

/** The only port of a pod that answers: no container listens. */
export const POD_PORT = 8080;

/** How a client connects. */
export interface Connection {
  /** `https://127.0.0.1:PORT`. */
  readonly server: string;
  /** Token of a user with all permissions. */
  readonly token: string;
  /** PEM of the CA of the server's certificate. */
  readonly certificateAuthority: string;
  /** Path of a kubeconfig with the same. */
  readonly kubeconfig: string;
  /** Port of 127.0.0.1 that {@link POD_PORT} of every pod leads to, by way of the API server and the pod's node. */
  readonly podPort: number;
}

export interface Cluster {
  readonly connection: Connection;
  /** Process ids by program. */
  readonly pids: Readonly<Record<string, number>>;
  /** Folder of logs and data; goes with the cluster. */
  readonly directory: string;
  stop(): Promise<void>;
}

/** @throws Error with the end of the log of a program that ends or does not become ready. */
export async function startCluster(modules: BuiltModules): Promise<Cluster> {
  const folder = new ScratchFolder("engine-room-kubernetes-");
  const programs: Program[] = [];
  const stop = async () => {
    // Clients before their servers.
    for (const program of programs.toReversed()) await program.kill();
    await folder.remove();
  };
  try {
    const connection = await startPrograms(modules, folder.path, programs);
    const pids = Object.fromEntries(programs.map(({ name, pid }) => [name, pid ?? 0]));
    return { connection, pids, directory: folder.path, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startPrograms(
  modules: BuiltModules,
  directory: string,
  programs: Program[],
): Promise<Connection> {
  const [etcdPort, peerPort, apiPort, controllerPort, schedulerPort, kwokPort, podPort = 0] =
    await freePorts(7);
  const inFolder = (name: string) => join(directory, name);
  const start = (executable: string, flags: Readonly<Record<string, string>>) => {
    const program = new Program(executable, flags, directory);
    programs.push(program);
    return program;
  };
  const kube = (name: string) => join(modules.kube, name);
  const etcd = `http://127.0.0.1:${etcdPort}`;
  const peer = `http://127.0.0.1:${peerPort}`;
  const server = `https://127.0.0.1:${apiPort}`;
  const token = randomBytes(24).toString("hex");
  const certificates = inFolder("certificates");
  const authority = join(certificates, "apiserver.crt");
  const kubeconfig = inFolder("kubeconfig");
  writeServiceAccountKeys(inFolder("service-accounts.key"), inFolder("service-accounts.pub"));
  writeFileSync(inFolder("tokens.csv"), `${token},admin,admin,"system:masters"\n`, { mode: 0o600 });
  writeFileSync(kubeconfig, kubeconfigText(server, token, authority), { mode: 0o600 });
  writeFileSync(inFolder("stages.yaml"), `${stages(modules.kwok)}\n---\n${podForward(podPort)}`);

  start(join(modules.etcd, "etcd"), {
    "data-dir": inFolder("etcd"),
    "listen-client-urls": etcd,
    "advertise-client-urls": etcd,
    "listen-peer-urls": peer,
    "initial-advertise-peer-urls": peer,
    "initial-cluster": `default=${peer}`,
    "log-level": "warn",
    // Nothing of it is needed after a crash, and a busy disk would slow down every write.
    "unsafe-no-fsync": "true",
  });
  start(kube("kube-apiserver"), {
    "etcd-servers": etcd,
    "bind-address": "127.0.0.1",
    "advertise-address": "127.0.0.1",
    "secure-port": `${apiPort}`,
    "cert-dir": certificates,
    "service-cluster-ip-range": "10.96.0.0/16",
    // It has no address that pods could reach, and needs none.
    "endpoint-reconciler-type": "none",
    "service-account-issuer": "https://kubernetes.default.svc",
    "service-account-key-file": inFolder("service-accounts.pub"),
    "service-account-signing-key-file": inFolder("service-accounts.key"),
    "token-auth-file": inFolder("tokens.csv"),
    "authorization-mode": "Node,RBAC",
    "anonymous-auth": "false",
  });
  const headers = { authorization: `Bearer ${token}` };
  await ready(programs, async () => answers(`${server}/readyz`, authority, headers));
  start(kube("kube-controller-manager"), {
    ...controllerFlags(kubeconfig, controllerPort, certificates),
    "service-account-private-key-file": inFolder("service-accounts.key"),
    "root-ca-file": authority,
    "use-service-account-credentials": "false",
    "allocate-node-cidrs": "false",
    // The default of 15 s would be most of the time of autoscalers' tests.
    "horizontal-pod-autoscaler-sync-period": "1s",
    // KWOK does not renew leases, and reports every ten minutes that a node is ready.
    "node-monitor-grace-period": "1h",
  });
  start(kube("kube-scheduler"), controllerFlags(kubeconfig, schedulerPort, certificates));
  start(join(modules.kwok, "kwok"), {
    kubeconfig,
    config: inFolder("stages.yaml"),
    "manage-all-nodes": "true",
    "server-address": `127.0.0.1:${kwokPort}`,
    // Leases go with the node that they were made for, and KWOK runs no pod on the next node of its name until it has made
    // another, 10 s later.
    "node-lease-duration-seconds": "0",
    // It answers the API server as every node's kubelet, over TLS; the API server does not check names.
    "node-ip": "127.0.0.1",
    "node-port": `${kwokPort}`,
    "tls-cert-file": authority,
    "tls-private-key-file": join(certificates, "apiserver.key"),
  });
  await ready(programs, async () => {
    const certificate = (name: string) => join(certificates, `${name}.crt`);
    await answers(`https://127.0.0.1:${controllerPort}/healthz`, certificate("kube-controller-manager"));
    await answers(`https://127.0.0.1:${schedulerPort}/healthz`, certificate("kube-scheduler"));
    await answers(`http://127.0.0.1:${kwokPort}/healthz`);
  });
  return { server, token, certificateAuthority: readFileSync(authority, "utf8"), kubeconfig, podPort };
}

/** Flags that controllers and scheduler have in common. */
function controllerFlags(kubeconfig: string, port: number | undefined, certificates: string) {
  return {
    kubeconfig,
    "bind-address": "127.0.0.1",
    "secure-port": `${port}`,
    "cert-dir": certificates,
    // There is one of each.
    "leader-elect": "false",
  };
}

function writeServiceAccountKeys(privateFile: string, publicFile: string): void {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "pem" },
  });
  writeFileSync(privateFile, privateKey, { mode: 0o600 });
  writeFileSync(publicFile, publicKey);
}

function kubeconfigText(server: string, token: string, authority: string): string {
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "tests", cluster: { server, "certificate-authority": authority } }],
    users: [{ name: "admin", user: { token } }],
    contexts: [{ name: "tests", context: { cluster: "tests", user: "admin" } }],
    "current-context": "tests",
  });
}

/** KWOK's stages of nodes and pods, as one file. */
function stages(folder: string): string {
  const files = readdirSync(folder).filter((file) => file.startsWith("stage-"));
  return files.map((file) => readFileSync(join(folder, file), "utf8")).join("\n---\n");
}

/** Target of KWOK's port forwards to pods. */
function podForward(port: number): string {
  return stringify({
    apiVersion: "kwok.x-k8s.io/v1alpha1",
    kind: "ClusterPortForward",
    metadata: { name: "pods" },
    spec: { forwards: [{ ports: [POD_PORT], target: { address: "127.0.0.1", port } }] },
  });
}

/** Returns when `ask` succeeds. @throws Error at once when a program has ended. */
async function ready(programs: readonly Program[], ask: () => Promise<void>): Promise<void> {
  let lastError = "";
  const hasEnded = () => programs.some(({ isRunning }) => !isRunning);
  await eventually(async () => {
    if (hasEnded()) return true;
    return ask().then(
      () => true,
      (error: Error) => {
        lastError = error.message;
        return undefined;
      },
    );
  }, READY_TIMEOUT_SECONDS).catch((error: Error) => {
    throw new Error(`The cluster is not ready: ${lastError}. ${error.message}`);
  });
  for (const program of programs) program.mustRun();
}

/**
 * @param authority - File that signs its certificate, which the program makes before it answers; absent for plain HTTP.
 * @throws Error if the answer is not 200.
 */
function answers(url: string, authority?: string, headers: Record<string, string> = {}): Promise<void> {
  const get = authority === undefined ? getPlain : getSecure;
  const ca = authority === undefined ? undefined : readFileSync(authority);
  return new Promise((resolve, reject) => {
    const request = get(url, { headers, ca, timeout: ANSWER_TIMEOUT_MILLISECONDS }, (response) => {
      response.resume();
      if (response.statusCode === 200) resolve();
      else reject(new Error(`${url} answers ${response.statusCode}`));
    });
    request.on("timeout", () => request.destroy(new Error(`${url} does not answer`)));
    request.on("error", reject);
  });
}
