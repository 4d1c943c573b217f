/** Whether registries have the images of a stack, as far as this machine can see. */
import type { ClusterImage } from "../../infra/plan/images.ts";
import type { AskRegistry, ManifestAnswer } from "../images/registry.ts";
import type { ClusterTarget } from "../program/cluster-target.ts";
import { type Finding, problem, warning } from "./finding.ts";

/** Answers by reference, of the images that were asked for. */
export type ImageAnswers = ReadonlyMap<string, ManifestAnswer>;

const RESERVED_HOST = /(^|\.)(example\.(org|com|net)|example|invalid|test)(:\d+)?$/;

/** An image without digest was never pushed, which is a problem of its own, and names of documents have no registry. */
function isAsked({ reference }: ClusterImage): boolean {
  return reference.includes("@sha256:") && !RESERVED_HOST.test(hostOf(reference));
}

export async function readImages(images: readonly ClusterImage[], ask: AskRegistry): Promise<ImageAnswers> {
  const asked = images.filter(isAsked);
  return new Map(
    await Promise.all(asked.map(async ({ reference }) => [reference, await ask(reference)] as const)),
  );
}

function hostOf(reference: string): string {
  return reference.split("/")[0] ?? "";
}

/** One finding for what one registry answers alike. Pure. */
export function imageFindings(
  { stack, imageProblems }: Pick<ClusterTarget, "stack" | "imageProblems">,
  answers: ImageAnswers,
): readonly Finding[] {
  const { images, imagePullSecrets } = stack;
  const hosts = [...new Set(images.map(({ reference }) => hostOf(reference)))];
  return [
    ...imageProblems.map(({ reason, fix }) =>
      problem("images", "Images of the stack can't be pulled.", reason, fix),
    ),
    ...hosts
      .filter((host) => RESERVED_HOST.test(host))
      .map((host) =>
        problem(
          "images",
          `No registry answers at ${host}.`,
          "The name is reserved for documentation (RFC 2606).",
          "Put your own registry in images.registry.",
        ),
      ),
    ...hosts.flatMap((host) => hostFindings(host, { images, answers, imagePullSecrets })),
  ];
}

interface HostAnswers {
  readonly images: readonly ClusterImage[];
  readonly answers: ImageAnswers;
  readonly imagePullSecrets: readonly string[];
}

function hostFindings(host: string, { images, answers, imagePullSecrets }: HostAnswers): readonly Finding[] {
  const own = images.filter(({ reference }) => hostOf(reference) === host);
  const of = <K extends ManifestAnswer["kind"]>(kind: K) =>
    own.flatMap(({ name, reference }) => {
      const answer = answers.get(reference);
      return answer?.kind === kind ? [{ name, answer: answer as Extract<ManifestAnswer, { kind: K }> }] : [];
    });
  const names = (all: readonly { readonly name: string }[]) => all.map(({ name }) => name).join(", ");
  const [missing, refused, silent] = [of("missing"), of("refused"), of("silent")];
  const secrets =
    imagePullSecrets.length === 0
      ? "none is named in images.pullSecrets"
      : `they have ${imagePullSecrets.join(", ")}`;
  const findings: Finding[] = [];
  if (missing.length > 0) {
    // A registry may hide from strangers what it has.
    const isSure = imagePullSecrets.length === 0 || missing.some(({ answer }) => !answer.isAnonymous);
    findings.push(
      (isSure ? problem : warning)(
        "images",
        `The registry ${host} does not have ${names(missing)}.`,
        `It has no manifest of the digest in images.lock.json${isSure ? "" : ", or hides it from a user who is not logged in"}.`,
        `Run \`npx engine-room images --push\` where Docker is${isSure ? "" : `, or \`docker login ${host}\` and ask again`}.`,
      ),
    );
  }
  if (refused.length > 0) {
    const isAnonymous = refused.some(({ answer }) => answer.isAnonymous);
    findings.push(
      warning(
        "images",
        `The registry ${host} does not show ${names(refused)} to you.`,
        `It was asked ${isAnonymous ? "without credentials, as Docker's configuration has none for it" : "with the credentials of Docker's configuration"}; the cluster's machines may have others, and of Secrets ${secrets}.`,
        `\`docker login ${host}\` and ask again; machines need a Secret of images.pullSecrets, or credentials of their own.`,
      ),
    );
  }
  if (silent.length > 0)
    findings.push(
      warning(
        "images",
        `The registry ${host} can't be asked for ${names(silent)} from here.`,
        `${silent[0]?.answer.words.replace(/\.$/, "")}. The cluster's machines may reach it on another way.`,
        "Nothing, if machines of the cluster pull from it; else correct images.registry, or open the way to it.",
      ),
    );
  return findings;
}
