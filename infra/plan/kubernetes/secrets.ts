/** Secrets of a stack's namespace, and the files by which pods read them. No plan has the values of the stack file. */
import { stringify } from "yaml";
import { canonicalJson } from "../canonical-json.ts";
import type { Container } from "../containers/container.ts";
import type { ClusterPlan } from "../stack-plan.ts";
import { secretFile } from "./cluster.ts";
import { hashedMetadata, objectLabels, type PodRole } from "./labels.ts";
import type { KubernetesStack, PodPlan, Secret, SecretReference } from "./types.ts";

/** Hashes of the keys, as a list. */
export const API_KEYS_FILE = "/run/secrets/api-keys/value";
const API_KEYS_KEY = "api-keys.json";

interface SecretsContext {
  readonly stack: string;
  readonly plan: ClusterPlan;
}

/** Where a pod's secret files come from, by path. */
export function secretFilesOf(
  { stack, plan }: SecretsContext,
  { role, secretFiles }: { readonly role: PodRole; readonly secretFiles: Container["secretFiles"] },
): PodPlan["secretFiles"] {
  const { databases } = plan.cluster;
  const hubToken = plan.tier === "gpu" ? plan.cluster.hubToken : null;
  const references: Readonly<Record<string, SecretReference>> = {
    ...(hubToken === null ? {} : { [secretFile("hubToken")]: hubToken }),
    ...(databases?.kind === "external" ? databases.secrets : {}),
  };
  const keys = role === "gateway" ? apiKeysSecret(stack, plan) : null;
  return {
    ...(keys === null
      ? {}
      : { [API_KEYS_FILE]: { name: keys.metadata.name, key: API_KEYS_KEY, from: null } }),
    ...Object.fromEntries(Object.entries(references).filter(([path]) => path in secretFiles)),
  };
}

/** Hashes of API keys, which are no credentials; null: the stack has no keys. */
export function apiKeysSecret(stack: string, { gateway: { apiKeys } }: ClusterPlan): Secret | null {
  if (apiKeys.length === 0) return null;
  const stringData = { [API_KEYS_KEY]: canonicalJson(apiKeys) };
  return {
    metadata: hashedMetadata("api-keys", objectLabels(stack, { role: "gateway" }), stringData),
    immutable: true,
    type: "Opaque",
    stringData,
  };
}

/** Secrets of a cloud that the Secrets Store CSI driver writes into volumes of pods. */
export function secretProviders({ stack, plan }: SecretsContext): KubernetesStack["secretProviders"] {
  const labels = objectLabels(stack);
  return plan.cluster.secretProviders.map(({ provider, kind, region, objects }) => ({
    account: {
      metadata: { name: provider.serviceAccount, labels },
      automountServiceAccountToken: false,
    },
    providerClass: {
      apiVersion: "secrets-store.csi.x-k8s.io/v1",
      kind: "SecretProviderClass",
      metadata: { name: provider.className, labels },
      spec: {
        provider: kind,
        parameters: {
          region,
          usePodIdentity: "true",
          // The provider wants its list as a text.
          objects: stringify(
            Object.entries(objects).map(([objectAlias, objectName]) => ({ objectName, objectAlias })),
          ),
        },
      },
    },
  }));
}
