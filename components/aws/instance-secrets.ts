/** Secrets of a stack file in Secrets Manager, for a machine that reads them itself. Cost: 0.40 USD a month each. */
import { Secret } from "@pulumi/aws/secretsmanager/secret.js";
import { SecretVersion } from "@pulumi/aws/secretsmanager/secretVersion.js";
import * as pulumi from "@pulumi/pulumi";
import type { InstanceSecret } from "../../infra/plan/aws/machine/instance-role.ts";
import type { AwsContext } from "../../infra/plan/aws/types.ts";
import type { SecretName } from "../../infra/plan/docker/types.ts";

interface InstanceSecretsArgs {
  readonly context: AwsContext;
  readonly secrets: readonly InstanceSecret[];
  /** Of all that the stack makes. */
  readonly values: Readonly<Partial<Record<SecretName, pulumi.Input<string>>>>;
}

/** Systems Manager takes no empty text. */
const NONE = "none";

export class InstanceSecrets extends pulumi.ComponentResource {
  /** Another text where a value is another one; it tells nothing of the value. */
  readonly versions: pulumi.Output<string>;

  constructor(name: string, args: InstanceSecretsArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:InstanceSecrets", name, {}, opts);

    const versions = args.secrets.flatMap(({ name: secret, secretName }) =>
      secretName === null ? [] : [this.#createSecret(name, args, secret, secretName).versionId],
    );
    this.versions = pulumi.all(versions).apply((ids) => ids.join(" ") || NONE);
    this.registerOutputs({});
  }

  #createSecret(
    name: string,
    { context, values }: InstanceSecretsArgs,
    secretName: SecretName,
    ownName: string,
  ): SecretVersion {
    const value = values[secretName];
    if (value === undefined) throw new Error(`No value for the secret ${secretName} of the instance`);
    const secret = new Secret(
      `${name}-${secretName}`,
      {
        name: ownName,
        description: "Read by the instance when it starts",
        // The stack file has the value: the next `up` after a `down` needs the name, which a deleted one would keep.
        recoveryWindowInDays: 0,
        tags: { ...context.tags, Name: ownName },
      },
      { parent: this },
    );
    return new SecretVersion(
      `${name}-${secretName}-version`,
      { secretId: secret.id, secretString: pulumi.secret(value) },
      { parent: this },
    );
  }
}
