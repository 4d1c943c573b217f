/** Secrets of a stack's namespace, and the files by which pods read them. No plan has the values of the stack file. */
import { posix } from "node:path";
import type { types } from "@pulumi/kubernetes";
import { stringify } from "yaml";
import type { Container } from "../containers/container.ts";
import type { Plain } from "../plain-data.ts";
import { canonicalJson } from "../plain-data.ts";
import type { ClusterPlan } from "../stack-plan.ts";
import { type SecretReference, secretFile } from "./cluster.ts";
import { type ApiObject, type CustomObject, hashedMetadata, objectLabels, type PodRole } from "./objects.ts";

/** Hashes of the keys, as a list. */
export const API_KEYS_FILE = "/run/secrets/api-keys/value";
const API_KEYS_KEY = "api-keys.json";

/** Secrets of a pod, by path of the file. */
export function secretFilesOf(
  stack: string,
  plan: ClusterPlan,
  { role, secretFiles }: Pick<Container, "secretFiles"> & { readonly role: PodRole },
): Readonly<Record<string, SecretReference>> {
  const { databases } = plan.cluster;
  const hubToken = plan.tier === "gpu" ? plan.cluster.hubToken : null;
  const keys = role === "gateway" ? apiKeysSecret(stack, plan) : null;
  const references: Readonly<Record<string, SecretReference>> = {
    ...(hubToken === null ? {} : { [secretFile("hubToken")]: hubToken }),
    ...(databases?.kind === "external" ? databases.secrets : {}),
  };
  return {
    ...(keys === null
      ? {}
      : { [API_KEYS_FILE]: { name: keys.metadata.name, key: API_KEYS_KEY, from: null } }),
    ...Object.fromEntries(Object.entries(references).filter(([path]) => path in secretFiles)),
  };
}

/** Secrets are files, since a variable of the environment would be in every crash report. */
export function secretVolume(
  path: string,
  { name, key, provider }: SecretReference,
): Plain<types.input.core.v1.Volume> {
  return {
    name: secretVolumeName(path),
    ...(provider === undefined
      ? // Readable by owner and group; the group is the pod's.
        { secret: { secretName: name, defaultMode: 0o440, items: [{ key, path: posix.basename(path) }] } }
      : {
          csi: {
            driver: "secrets-store.csi.k8s.io",
            readOnly: true,
            volumeAttributes: { secretProviderClass: provider.className },
          },
        }),
  };
}

export function secretVolumeName(path: string): string {
  return `secret-${posix.basename(posix.dirname(path))}`;
}

/** Hashes of API keys, which are not credentials; null for a stack without keys. */
export function apiKeysSecret(
  stack: string,
  { gateway: { apiKeys } }: ClusterPlan,
): ApiObject<"Secret"> | null {
  if (apiKeys.length === 0) return null;
  const stringData = { [API_KEYS_KEY]: canonicalJson(apiKeys) };
  const metadata = hashedMetadata("api-keys", objectLabels(stack, { role: "gateway" }), stringData);
  return { kind: "Secret", metadata, immutable: true, type: "Opaque", stringData };
}

/** The account of builds that read a bucket; null if the stack has no such account, or a secret's provider has it. */
export function bucketAccount(stack: string, { cluster }: ClusterPlan): ApiObject<"ServiceAccount"> | null {
  const { bucketAccount: name, secretProviders } = cluster;
  const isMade = secretProviders.some(({ provider }) => provider.serviceAccount === name);
  return name === null || isMade ? null : serviceAccount(stack, name);
}

function serviceAccount(stack: string, name: string): ApiObject<"ServiceAccount"> {
  const metadata = { name, labels: objectLabels(stack) };
  return { kind: "ServiceAccount", metadata, automountServiceAccountToken: false };
}

/** Secrets of a cloud that the Secrets Store CSI driver writes into volumes of pods. */
export function secretProviders(
  stack: string,
  { cluster }: ClusterPlan,
): readonly {
  readonly account: ApiObject<"ServiceAccount">;
  readonly providerClass: CustomObject;
}[] {
  const labels = objectLabels(stack);
  return cluster.secretProviders.map(({ provider, kind, region, objects }) => ({
    account: serviceAccount(stack, provider.serviceAccount),
    providerClass: {
      apiVersion: "secrets-store.csi.x-k8s.io/v1",
      kind: "SecretProviderClass",
      metadata: { name: provider.className, labels },
      spec: {
        provider: kind,
        parameters: {
          region,
          usePodIdentity: "true",
          // The provider requires its list as text.
          objects: stringify(
            Object.entries(objects).map(([objectAlias, objectName]) => ({ objectName, objectAlias })),
          ),
        },
      },
    },
  }));
}
