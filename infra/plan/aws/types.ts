/** The context of a stack on AWS, its roles, and what is planned for its instance. */
import type { RoleArgs } from "@pulumi/aws/iam/role.js";
import type { ContainerRole, SecretName } from "../docker/types.ts";

/** Sorted. */
export type Tags = Readonly<Record<string, string>>;

/** What every part of a stack on AWS is planned with. */
export interface AwsContext {
  /** Name of the stack. */
  readonly stack: string;
  /** `engine-room-<stack>`, the first part of names. */
  readonly name: string;
  readonly account: string;
  readonly region: string;
  /** `aws`, `aws-us-gov`. */
  readonly partition: string;
  /** Whether the stack file names the stack in `retain`: its data and its cluster are protected. */
  readonly isRetained: boolean;
  /** Tags of all resources. */
  readonly tags: Tags;
  /** Tags that never change, of resources that a change of tags replaces. */
  readonly lastingTags: Tags;
}

/** Statement of a policy, in IAM's own grammar. Placeholders stand for values that AWS assigns. */
export interface Statement {
  readonly Sid: string;
  readonly Effect: "Allow";
  readonly Action: readonly string[];
  readonly Resource: readonly string[];
  readonly Condition?: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

export interface RolePlan {
  /** After the stack's name: `cluster`, `node`, `efs-csi`. */
  readonly subject: string;
  readonly args: { readonly name: string; readonly assumeRolePolicy: string } & RoleArgs;
  /** ARNs of AWS's own policies. */
  readonly managedPolicies: readonly string[];
  readonly statements: readonly Statement[];
  /** The only ServiceAccount whose pods assume the role; null for a role of an AWS service. */
  readonly serviceAccount: { readonly namespace: string; readonly serviceAccount: string } | null;
}

/** A unit of systemd, with the files that it needs. */
export interface UnitPlan {
  /** `engine-room-gateway.service`. */
  readonly name: string;
  readonly role: ContainerRole | "setup";
  readonly text: string;
  /** By absolute path on the instance, with their mode as text: `0644`. */
  readonly files: Readonly<Record<string, { readonly text: string; readonly mode: string }>>;
}

/** A command that runs on the instance through Systems Manager, and that `up` waits for. */
export interface InstanceTaskPlan {
  /** `setup`, `build-gpt2-medium-0123456789ab`, `services`. */
  readonly name: string;
  /** Units that it writes. */
  readonly units: readonly UnitPlan[];
  /** Shell text of the association: idempotent, ends with exit code 0 when what it starts has ended or answers. */
  readonly script: string;
  /** With a hash of its content in the name: another content is another document, which runs again. */
  readonly document: { readonly name: string; readonly content: string };
  /** How long the script may take. */
  readonly timeoutSeconds: number;
  /** How long `up` waits for its success: the agent has to come for it, and may be busy with the one before. */
  readonly waitSeconds: number;
  /** Tasks before it. */
  readonly after: readonly string[];
  /** Whether it has to run again when the value of a secret is another one. */
  readonly readsSecrets: boolean;
}

/** A secret that containers of the instance read. */
export interface InstanceSecretPlan {
  readonly name: SecretName;
  /** Of the one that the stack makes; null: it is there already. */
  readonly secretName: string | null;
  /** As a policy may name it; of one that the stack makes with `??????` for what only Secrets Manager knows. */
  readonly arn: string;
  /** On the instance, in memory. */
  readonly file: string;
}

export interface InstancePlan {
  readonly instanceType: string;
  readonly zone: string;
  /** SSM public parameter of the deep-learning AMI. */
  readonly amiParameter: string;
  readonly rootDiskGiB: number;
  /** A volume of its own, which another machine of the stack gets with all documents. */
  readonly databaseDisk: { readonly sizeGiB: number; readonly deviceName: string };
  readonly isSpot: boolean;
  readonly capacityReservationId: string | null;
  /** Whether neither the console nor a command ends it by accident, and the databases' disk outlives the stack. */
  readonly isProtected: boolean;
  /** TCP ports that it may connect to, wherever they are, by what answers there. */
  readonly egressPorts: Readonly<Record<string, number>>;
  /** Under 16 KiB; `${fileSystemId}`, `${accessPointId}` and `${databaseVolumeSerial}` stand for what is known later. */
  readonly userData: string;
  readonly role: RolePlan;
  /** Each behind all that it comes after. */
  readonly tasks: readonly InstanceTaskPlan[];
  readonly secrets: readonly InstanceSecretPlan[];
  /** Secrets whose values the stack file has. */
  readonly stackSecrets: readonly SecretName[];
}
