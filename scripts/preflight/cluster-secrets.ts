/** Secrets that somebody else puts into a stack's namespace. Pure. */
import type { SecretReference } from "../../infra/plan/kubernetes/cluster.ts";
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { ApiObject } from "../../infra/plan/kubernetes/objects.ts";
import { isCertified } from "./cluster-kinds.ts";
import type { ClusterReading } from "./cluster-reading.ts";
import { type Finding, problem } from "./finding.ts";

/** Those that lack, or lack their key; a namespace that is not there has a finding of its own. */
export function secretFindings(
  stack: KubernetesStack,
  { secretKeys, hasNamespace }: ClusterReading,
): readonly Finding[] {
  if (hasNamespace === false) return [];
  return namedSecrets(stack).flatMap(({ name, key, why, fix }) => {
    const keys = secretKeys.get(name);
    if (keys === undefined || keys === null || keys.has(key)) return [];
    return [
      problem(
        "secrets",
        keys.size === 0
          ? `There is no Secret ${name} in the namespace ${stack.namespace.name}.`
          : `The Secret ${name} has no key ${key}.`,
        keys.size === 0 ? why : `${why} It has ${[...keys].join(", ")}.`,
        fix,
      ),
    ];
  });
}

interface NamedSecret {
  readonly name: string;
  readonly key: string;
  readonly why: string;
  readonly fix: string;
}

/** Secrets that must be there before the stack comes up. */
export function namedSecrets({
  builds,
  servers,
  imagePullSecrets,
  ingress,
  apiKeys,
  namespace,
}: KubernetesStack): readonly NamedSecret[] {
  const references = [...builds, ...servers].flatMap(({ pod }) => Object.values(pod.secretFiles));
  const byName = new Map<string, SecretReference>(
    references
      .filter(({ name, from }) => from === null && name !== apiKeys?.metadata.name)
      .map((reference) => [`${reference.name} ${reference.key}`, reference]),
  );
  const create = "kubectl create secret generic";
  const tlsSecret = ingress?.spec?.tls?.[0]?.secretName;
  return [
    ...[...byName.values()].map(({ name, key }) => ({
      name,
      key,
      why: "The stack file names it, and pods that mount it wait until it is there.",
      fix: `\`${create} ${name} --namespace ${namespace.name} --from-file=${key}=FILE\`.`,
    })),
    ...imagePullSecrets.map((name) => ({
      name,
      key: ".dockerconfigjson",
      why: "images.pullSecrets names it, and without it a private registry gives no image.",
      fix: `\`kubectl create secret docker-registry ${name} --namespace ${namespace.name} --docker-server=… --docker-username=…\`.`,
    })),
    ...(ingress === null || tlsSecret === undefined || isCertified(ingress)
      ? []
      : [
          {
            name: tlsSecret,
            key: "tls.crt",
            why: `gateway.tls.secretName names it: the certificate of ${hostOf(ingress)}.`,
            fix: `\`kubectl create secret tls ${tlsSecret} --namespace ${namespace.name} --cert=FILE --key=FILE\`.`,
          },
        ]),
  ];
}

/** Host name of the stack's Ingress. */
export function hostOf({ spec }: ApiObject<"Ingress">): string {
  return spec?.rules?.[0]?.host ?? "";
}
