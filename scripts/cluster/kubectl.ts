/** All that commands ask of a cluster, through the user's kubectl: kubeconfigs name programs that log in, and it runs them. */
import { UserError } from "../errors.ts";
import { type Finding, problem } from "../preflight/finding.ts";
import { lastLine, type ProbeAnswer, probeProgram } from "../preflight/host-probe.ts";

export interface ClusterProbe {
  /** Of the kubeconfig; null: the current one. */
  readonly context: string | null;
  /** Runs kubectl with the context. @param input - For `--filename -`. */
  kubectl(args: readonly string[], input?: string): Promise<ProbeAnswer>;
}

/** For one request; kubectl itself waits for ever. The probe's own limit is 30 s. */
const REQUEST_TIMEOUT = "--request-timeout=20s";

/** @param context - Of the kubeconfig, which KUBECONFIG or ~/.kube/config is; null: the current one. */
export function clusterProbe(context: string | null): ClusterProbe {
  return {
    context,
    kubectl: (args, input = "") =>
      probeProgram([...kubectlCommand(context), REQUEST_TIMEOUT, ...args], input),
  };
}

/** First words of every call. */
export function kubectlCommand(context: string | null): readonly [string, ...string[]] {
  return ["kubectl", ...(context === null ? [] : ["--context", context])];
}

/** How people name the cluster. */
export function clusterName(context: string | null): string {
  return context === null ? "the cluster of the current context" : `the cluster of the context ${context}`;
}

/** Why there is no answer of an API server: the first that fits. */
const SILENCES: readonly {
  readonly words: RegExp;
  readonly what: (where: string) => string;
  readonly fix: string;
}[] = [
  {
    words: /context .* does not exist|no context exists|context was not found/i,
    what: () => "The kubeconfig has no such context.",
    fix: "`kubectl config get-contexts` lists them; correct `context` of the stack file, or set KUBECONFIG.",
  },
  {
    words: /exec: |executable .* (failed|not found)|getting credentials/i,
    what: (where) => `The program that logs in to ${where} fails.`,
    fix: "Install what users[].exec of the kubeconfig names, log in with it, and try `kubectl version`.",
  },
  {
    words: /unauthorized|must be logged in|provide credentials/i,
    what: (where) => `You are not logged in to ${where}.`,
    fix: "Log in anew, and try `kubectl version`.",
  },
  {
    words: /x509|certificate/i,
    what: (where) => `The certificate of ${where} is not accepted.`,
    fix: "Fetch the kubeconfig anew: the cluster may have another certificate authority.",
  },
  {
    words:
      /connection to the server .* was refused|failed to download openapi|unable to connect|no such host|i\/o timeout|deadline exceeded|timed out|no route to host|no configuration has been provided|gave no answer/i,
    what: (where) => `No API server answers for ${where}.`,
    fix: "Try `kubectl version`; `context` of the stack file and KUBECONFIG say which cluster is meant.",
  },
];

/** Of `kubectl create`, whose first question is the server's schema: it helps nobody where no server is. */
const VALIDATION_ADVICE = /; if you choose to ignore these errors,.*$/;

/** What keeps every question from being answered; null where the server gave an answer, an error included. */
export function silenceFinding(context: string | null, answer: ProbeAnswer): Finding | null {
  const { exitCode, stderr } = answer;
  if (exitCode === 0) return null;
  if (exitCode === null && stderr.includes("ENOENT"))
    return problem(
      "kubectl",
      "This machine has no `kubectl` command.",
      `It asks ${clusterName(context)}, and none was found on the PATH.`,
      "Install it (https://kubernetes.io/docs/tasks/tools/).",
    );
  const words = lastLine(stderr).replace(VALIDATION_ADVICE, "");
  // The server's own refusals have a reason in brackets.
  if (/Error from server \((?!Unauthorized|ServiceUnavailable)/.test(words)) return null;
  const silence = SILENCES.find((one) => one.words.test(stderr));
  if (silence === undefined) return null;
  return problem("server", silence.what(clusterName(context)), words, silence.fix);
}

/** The same, as an error says it. */
export function silenceWords(context: string | null, answer: ProbeAnswer): string | null {
  const silence = silenceFinding(context, answer);
  return silence === null ? null : `${silence.what} ${silence.why}\n${silence.fix}`;
}

/** What one call of kubectl prints. @throws UserError with its own last words where it fails. */
export async function kubectlText(probe: ClusterProbe, args: readonly string[], input = ""): Promise<string> {
  return textOf(probe, args, await probe.kubectl(args, input));
}

function textOf(probe: ClusterProbe, args: readonly string[], answer: ProbeAnswer): string {
  if (answer.exitCode === 0) return answer.stdout;
  const silence = silenceWords(probe.context, answer);
  if (silence !== null) throw new UserError(silence);
  throw new UserError(
    `\`kubectl ${args[0]}\` failed at ${clusterName(probe.context)}: ${lastLine(answer.stderr)}`,
  );
}

/** Objects of a `kubectl get --output json`; none of a kind that the cluster does not know. @throws UserError where it fails. */
export async function kubectlItems<T>(probe: ClusterProbe, args: readonly string[]): Promise<readonly T[]> {
  const words = ["get", ...args, "--output", "json"];
  const answer = await probe.kubectl(words);
  if (answer.exitCode !== 0 && /the server doesn't have a resource type/.test(answer.stderr)) return [];
  return (JSON.parse(textOf(probe, words, answer)) as { readonly items: readonly T[] }).items;
}
