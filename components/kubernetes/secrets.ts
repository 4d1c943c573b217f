/** Secrets of the namespace: values of the stack file, and hashes of API keys. Cost: none. */
import { Secret } from "@pulumi/kubernetes/core/v1/secret.js";
import * as pulumi from "@pulumi/pulumi";
import type { Labels, SecretName, SecretReference } from "../../infra/plan/kubernetes/pod-types.ts";
import type { PlannedSecret } from "../../infra/plan/kubernetes/types.ts";

interface SecretsArgs {
  /** Those that pods name; what is not of the stack file is left out. */
  readonly references: readonly SecretReference[];
  readonly values: Readonly<Partial<Record<SecretName, pulumi.Input<string>>>>;
  readonly planned: readonly PlannedSecret[];
  readonly labels: Labels;
  readonly namespace: pulumi.Input<string>;
}

export class Secrets extends pulumi.ComponentResource {
  /** Another value is another Secret, with another uid. */
  readonly uids: Readonly<Partial<Record<SecretName, pulumi.Output<string>>>>;
  /** By name: what must be there before a pod mounts it. */
  readonly secrets: Readonly<Record<string, Secret>>;

  constructor(name: string, args: SecretsArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:kubernetes:Secrets", name, {}, opts);

    const planned = args.planned.map((secret) => ({
      name: secret.name,
      secret: this.#createSecret(`${name}-${secret.subject}`, { ...secret, namespace: args.namespace }),
    }));
    const given = distinct(args.references).map(({ name: secretName, key, from }) => ({
      name: secretName,
      from,
      secret: this.#createSecret(
        `${name}-${secretName}`,
        {
          name: secretName,
          labels: args.labels,
          namespace: args.namespace,
          data: { [key]: secretValue(args, from) },
        },
        // Its name stays the same.
        { deleteBeforeReplace: true },
      ),
    }));

    this.secrets = Object.fromEntries([...planned, ...given].map((one) => [one.name, one.secret]));
    this.uids = Object.fromEntries(given.map(({ from, secret }) => [from, secret.metadata.uid]));
    this.registerOutputs({});
  }

  #createSecret(
    resourceName: string,
    { name, labels, namespace, data }: SecretObject,
    opts: pulumi.CustomResourceOptions = {},
  ): Secret {
    return new Secret(
      resourceName,
      {
        metadata: { name, namespace, labels: { ...labels } },
        immutable: true,
        type: "Opaque",
        stringData: { ...data },
      },
      { parent: this, ...opts },
    );
  }
}

interface SecretObject {
  readonly name: string;
  readonly labels: Labels;
  readonly namespace: pulumi.Input<string>;
  readonly data: Readonly<Record<string, pulumi.Input<string>>>;
}

type Given = SecretReference & { readonly from: SecretName };

function distinct(references: readonly SecretReference[]): readonly Given[] {
  const given = references.filter((one): one is Given => one.from !== null);
  return given.filter(({ from }, index) => given.findIndex((other) => other.from === from) === index);
}

function secretValue({ values }: SecretsArgs, name: SecretName): pulumi.Input<string> {
  const value = values[name];
  if (value === undefined) throw new Error(`No value was given for the secret ${name}`);
  return value;
}
