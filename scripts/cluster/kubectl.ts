/** All requests of commands to a cluster, through the user's kubectl, which runs the login programs of kubeconfigs. */
import type { Plain } from "../../infra/plan/plain-data.ts";
import { UserError } from "../errors.ts";
import { type Finding, problem } from "../preflight/finding.ts";
import { lastLine, type ProbeAnswer, probeProgram } from "../preflight/host-probe.ts";

/** An object as `kubectl get --output json` prints it, without empty parts. */
export type Found<T> = Plain<T> & { readonly metadata: { readonly name: string } };

export interface ClusterProbe {
  /** Context of the kubeconfig; null for the current context. */
  readonly context: string | null;
  /** Runs kubectl with the context. @param input - For `--filename -`. */
  kubectl(args: readonly string[], input?: string): Promise<ProbeAnswer>;
}

/** Limit of a request; kubectl itself waits forever. The probe's own limit is 30 s. */
const REQUEST_TIMEOUT = "--request-timeout=20s";

/** @param context - Context of the kubeconfig in KUBECONFIG or ~/.kube/config; null for the current context. */
export function clusterProbe(context: string | null): ClusterProbe {
  // Asked once, with the first call: a command of the project makes many.
  let unselected: Promise<ProbeAnswer | null> | undefined;
  return {
    context,
    async kubectl(args, input = "") {
      unselected ??= context === null ? answerWithoutKubeconfig() : Promise.resolve(null);
      return (
        (await unselected) ?? probeProgram([...kubectlCommand(context), REQUEST_TIMEOUT, ...args], input)
      );
    },
  };
}

/**
 * kubectl's answer if no kubeconfig names a cluster; null otherwise, and in a pod, which has its own cluster. kubectl would ask
 * localhost:8080 then, where a gateway of a stack on this machine may answer.
 */
async function answerWithoutKubeconfig(): Promise<ProbeAnswer | null> {
  if (process.env.KUBERNETES_SERVICE_HOST !== undefined) return null;
  const answer = await probeProgram(["kubectl", "config", "current-context"], "");
  return answer.exitCode === 1
    ? { ...answer, stderr: "no configuration has been provided: the kubeconfig selects no context" }
    : null;
}

/** First words of each call of kubectl. */
export function kubectlCommand(context: string | null): readonly [string, ...string[]] {
  return ["kubectl", ...(context === null ? [] : ["--context", context])];
}

/** Name of the cluster for people. */
export function clusterName(context: string | null): string {
  return context === null ? "the cluster of the current context" : `the cluster of the context ${context}`;
}

/** Errors of the connection: no context, a program that logs in, a login, a certificate, no server. */
const NO_ACCESS =
  /context .* does not exist|no context exists|context was not found|exec: |executable .* (failed|not found)|getting credentials|unauthorized|must be logged in|provide credentials|x509|certificate|connection to the server .* was refused|failed to download openapi|unable to connect|no such host|i\/o timeout|deadline exceeded|timed out|no route to host|no configuration has been provided|gave no answer/i;

/** Finding for a failed connection; null if the server answered, even with an error. */
export function noAnswerFinding(context: string | null, { exitCode, stderr }: ProbeAnswer): Finding | null {
  if (exitCode === 0) return null;
  if (exitCode === null && stderr.includes("ENOENT"))
    return problem(
      "kubectl",
      "This machine has no `kubectl` command.",
      `It asks ${clusterName(context)}, and none was found on the PATH.`,
      "Install it (https://kubernetes.io/docs/tasks/tools/).",
    );
  // `kubectl create` first asks for the server's schema, and its advice to ignore the error is useless without a server.
  const words = lastLine(stderr).replace(/; if you choose to ignore these errors,.*$/, "");
  // The server's own refusals have a reason in brackets.
  if (/Error from server \((?!Unauthorized|ServiceUnavailable)/.test(words) || !NO_ACCESS.test(stderr))
    return null;
  return problem(
    "server",
    `kubectl has no access to ${clusterName(context)}.`,
    words,
    "Try `kubectl version`; `context` of the stack file and KUBECONFIG say which cluster is meant (`kubectl config get-contexts`).",
  );
}

/** The same, as an error says it. */
export function silenceWords(context: string | null, answer: ProbeAnswer): string | null {
  const silence = noAnswerFinding(context, answer);
  return silence === null ? null : `${silence.what} ${silence.why}\n${silence.fix}`;
}

/** Output of a call of kubectl. @throws UserError with its own last words if it fails. */
export async function kubectlText(probe: ClusterProbe, args: readonly string[], input = ""): Promise<string> {
  return textOf(probe, args, await probe.kubectl(args, input));
}

function textOf({ context }: ClusterProbe, args: readonly string[], answer: ProbeAnswer): string {
  if (answer.exitCode === 0) return answer.stdout;
  throw new UserError(
    silenceWords(context, answer) ??
      `\`kubectl ${args[0]}\` failed at ${clusterName(context)}: ${lastLine(answer.stderr)}`,
  );
}

/** Objects of a `kubectl get --output json`; empty for a kind that is unknown to the cluster. @throws UserError if it fails. */
export async function kubectlItems<T>(probe: ClusterProbe, args: readonly string[]): Promise<readonly T[]> {
  const words = ["get", ...args, "--output", "json"];
  const answer = await probe.kubectl(words);
  if (answer.exitCode !== 0 && /the server doesn't have a resource type/.test(answer.stderr)) return [];
  return (JSON.parse(textOf(probe, words, answer)) as { readonly items: readonly T[] }).items;
}
