/** Secrets of the namespace: values of the stack file, and hashes of API keys. Cost: none. */
import { Secret } from "@pulumi/kubernetes/core/v1/secret.js";
import * as pulumi from "@pulumi/pulumi";
import type { SecretName } from "../../infra/plan/docker/types.ts";
import type { KubernetesStack, SecretReference } from "../../infra/plan/kubernetes/types.ts";
import { inNamespace } from "./workload.ts";

interface SecretsArgs extends Pick<KubernetesStack, "apiKeys" | "labels"> {
  /** Secrets of pods; those without a value of the stack file are left out. */
  readonly references: readonly SecretReference[];
  readonly values: Readonly<Partial<Record<SecretName, pulumi.Input<string>>>>;
  readonly namespace: pulumi.Input<string>;
}

export class Secrets extends pulumi.ComponentResource {
  /** Another value is another Secret, with another uid. */
  readonly uids: Readonly<Partial<Record<SecretName, pulumi.Output<string>>>>;
  /** By name: what must be there before a pod mounts it. */
  readonly secrets: Readonly<Record<string, Secret>>;

  constructor(name: string, args: SecretsArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:kubernetes:Secrets", name, {}, opts);

    const { apiKeys, references, namespace } = args;
    const uids = new Map<SecretName, pulumi.Output<string>>();
    const secrets = new Map<string, Secret>();
    if (apiKeys !== null)
      secrets.set(
        apiKeys.metadata.name,
        new Secret(`${name}-api-keys`, inNamespace(apiKeys, namespace), { parent: this }),
      );
    for (const { name: secretName, key, from } of references) {
      if (from === null || uids.has(from)) continue;
      const secret = new Secret(
        `${name}-${secretName}`,
        {
          metadata: { name: secretName, namespace, labels: args.labels },
          immutable: true,
          type: "Opaque",
          stringData: { [key]: secretValue(args, from) },
        },
        // Its name stays the same.
        { parent: this, deleteBeforeReplace: true },
      );
      secrets.set(secretName, secret);
      uids.set(from, secret.metadata.uid);
    }
    this.uids = Object.fromEntries(uids);
    this.secrets = Object.fromEntries(secrets);
    this.registerOutputs({});
  }
}

function secretValue({ values }: SecretsArgs, name: SecretName): pulumi.Input<string> {
  const value = values[name];
  if (value === undefined) throw new Error(`No value was given for the secret ${name}`);
  return value;
}
