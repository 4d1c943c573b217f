/**
 * Resources of an account before its first stack. Cost: 1 USD a month for the key, 0.10 USD a GB and month of images and 0.023 of state
 * (us-east-1); scans on push, roles and policies are free.
 */
import { LifecyclePolicy } from "@pulumi/aws/ecr/lifecyclePolicy.js";
import { Repository } from "@pulumi/aws/ecr/repository.js";
import { OpenIdConnectProvider } from "@pulumi/aws/iam/openIdConnectProvider.js";
import { Policy } from "@pulumi/aws/iam/policy.js";
import { Role } from "@pulumi/aws/iam/role.js";
import { RolePolicyAttachment } from "@pulumi/aws/iam/rolePolicyAttachment.js";
import { Key } from "@pulumi/aws/kms/key.js";
import { Bucket } from "@pulumi/aws/s3/bucket.js";
import { BucketPolicy } from "@pulumi/aws/s3/bucketPolicy.js";
import { BucketPublicAccessBlock } from "@pulumi/aws/s3/bucketPublicAccessBlock.js";
import { BucketServerSideEncryptionConfiguration } from "@pulumi/aws/s3/bucketServerSideEncryptionConfiguration.js";
import { BucketVersioning } from "@pulumi/aws/s3/bucketVersioning.js";
import * as pulumi from "@pulumi/pulumi";
import type { BootstrapPlan } from "../../infra/plan/aws/bootstrap.ts";
import { filled } from "../../infra/plan/aws/data-files.ts";

interface BootstrapArgs {
  readonly plan: BootstrapPlan;
}

const named = ({ tags }: BootstrapPlan, name: string) => ({ ...tags, Name: name });

/** Repositories of ECR, which are deleted only when they are empty. */
export class Registries extends pulumi.ComponentResource {
  constructor(name: string, { plan }: BootstrapArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:Registries", name, {}, opts);

    for (const { image, args, policy } of plan.repositories) {
      const repository = new Repository(
        `${name}-${image}`,
        { ...args, tags: named(plan, args.name) },
        { parent: this },
      );
      new LifecyclePolicy(
        `${name}-${image}-lifecycle`,
        { repository: repository.name, policy },
        { parent: this },
      );
    }
    this.registerOutputs({});
  }
}

/** Storage of Pulumi's states, and the key of their secrets. Both are protected: without them no stack can be deleted. */
export class StateStore extends pulumi.ComponentResource {
  readonly keyArn: pulumi.Output<string>;

  constructor(name: string, { plan }: BootstrapArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:StateStore", name, {}, opts);

    const own = { parent: this };
    const { state } = plan;
    const { id: bucket } = new Bucket(
      `${name}-bucket`,
      { bucket: state.bucket, tags: named(plan, state.bucket) },
      { ...own, protect: true },
    );
    new BucketPublicAccessBlock(
      `${name}-access`,
      {
        bucket,
        blockPublicAcls: true,
        blockPublicPolicy: true,
        ignorePublicAcls: true,
        restrictPublicBuckets: true,
      },
      own,
    );
    new BucketVersioning(`${name}-versions`, { bucket, versioningConfiguration: { status: "Enabled" } }, own);
    new BucketServerSideEncryptionConfiguration(
      `${name}-encryption`,
      { bucket, rules: [{ applyServerSideEncryptionByDefault: { sseAlgorithm: "AES256" } }] },
      own,
    );
    new BucketPolicy(`${name}-policy`, { bucket, policy: state.bucketPolicy }, own);
    const key = new Key(
      `${name}-key`,
      {
        description: "Secrets in the state of Engine Room's stacks",
        enableKeyRotation: true,
        deletionWindowInDays: 30,
        tags: named(plan, "engine-room-state"),
      },
      { ...own, protect: true },
    );
    this.keyArn = key.arn;
    this.registerOutputs({ keyArn: this.keyArn });
  }
}

interface AccessArgs extends BootstrapArgs {
  readonly keyArn: pulumi.Input<string>;
}

/** Policies of deployment and of reading, and the roles with them for GitHub's jobs. */
export class DeployAccess extends pulumi.ComponentResource {
  /** ARNs by name, as `dev-network`. */
  readonly policies: pulumi.Output<Readonly<Record<string, string>>>;
  /** ARNs by GitHub's environment, as `deploy-dev`. */
  readonly roles: pulumi.Output<Readonly<Record<string, string>>>;

  constructor(name: string, { plan, keyArn }: AccessArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:DeployAccess", name, {}, opts);

    const own = { parent: this };
    const policies = new Map<string, pulumi.Output<string>>();
    for (const { name: subject, args, document } of plan.policies) {
      const policy = pulumi.output(keyArn).apply((arn) => filled(document, { keyArn: arn }));
      const { arn } = new Policy(
        `${name}-${subject}`,
        { ...args, policy, tags: named(plan, args.name) },
        own,
      );
      policies.set(subject, arn);
    }
    const { oidcProvider } = plan;
    const provider =
      oidcProvider === null
        ? []
        : [
            new OpenIdConnectProvider(
              `${name}-github`,
              { ...oidcProvider, tags: named(plan, "github") },
              own,
            ),
          ];
    const roles = plan.roles.map(({ environment, args, policies: subjects }) => {
      const role = new Role(
        `${name}-${environment}`,
        { ...args, tags: named(plan, args.name) },
        // AWS refuses a trust policy that names a missing provider.
        { ...own, dependsOn: provider },
      );
      for (const subject of subjects) {
        const policyArn = policies.get(subject);
        if (policyArn === undefined) throw new Error(`There is no policy ${subject}.`);
        new RolePolicyAttachment(`${name}-${environment}-${subject}`, { role: role.name, policyArn }, own);
      }
      return [environment, role.arn] as const;
    });
    this.policies = pulumi.output(Object.fromEntries(policies));
    this.roles = pulumi.output(Object.fromEntries(roles));
    this.registerOutputs({ policies: this.policies, roles: this.roles });
  }
}
