/** Rules about data: it is encrypted, it outlives a destroy, and IAM policies allow only named actions. */
import {
  at,
  type Check,
  type CheckedResource,
  type Finding,
  isMapping,
  listAt,
  type Rule,
  UNKNOWN,
  undecided,
  violatedIf,
} from "../rule.ts";

/** @param path - Path of the setting, as shown. */
function encryption(
  path: string,
  value: unknown,
  fix = `Set ${path} to true; it can't be changed later without copying the data.`,
): readonly Finding[] {
  if (value === UNKNOWN) return undecided(path);
  // Launch templates and storage classes have texts.
  const isEncrypted = value === true || value === "true";
  const found = value === undefined ? "absent" : JSON.stringify(value);
  const reason = `${path} is ${found}: weights, engines and documents would be stored on it unencrypted.`;
  return violatedIf(!isEncrypted, reason, fix);
}

function encryptedBy(...path: readonly string[]): Check {
  return ({ inputs }) => encryption(path.join("."), at(inputs, ...path));
}

/**
 * ECR and S3 are not checked: AWS encrypts every image and, since January 2023, every object, and neither can be switched off.
 * https://docs.aws.amazon.com/AmazonS3/latest/userguide/default-encryption-faq.html
 * https://docs.aws.amazon.com/AmazonECR/latest/userguide/encryption-at-rest.html
 */
export const storageIsEncrypted: Rule = {
  description: "Disks, file systems and databases are encrypted.",
  scope: "resource",
  checks: {
    "aws:efs/fileSystem:FileSystem": encryptedBy("encrypted"),
    "aws:ebs/volume:Volume": encryptedBy("encrypted"),
    "aws:rds/instance:Instance": encryptedBy("storageEncrypted"),
    "aws:rds/cluster:Cluster": encryptedBy("storageEncrypted"),
    "aws:docdb/cluster:Cluster": encryptedBy("storageEncrypted"),
    "aws:elasticache/replicationGroup:ReplicationGroup": encryptedBy("atRestEncryptionEnabled"),
    "aws:opensearch/domain:Domain": encryptedBy("encryptAtRest", "enabled"),
    "aws:ec2/launchTemplate:LaunchTemplate": ({ inputs: { blockDeviceMappings } }) => {
      const disks = listAt(blockDeviceMappings).filter((mapping) => at(mapping, "ebs") !== undefined);
      // Without a mapping the disk is as the machine image has it.
      if (disks.length === 0)
        return encryption(
          "blockDeviceMappings",
          blockDeviceMappings,
          "Set blockDeviceMappings[0].ebs.encrypted to true; it can't be changed later without copying the data.",
        );
      return disks.flatMap((disk, index) =>
        encryption(`blockDeviceMappings[${index}].ebs.encrypted`, at(disk, "ebs", "encrypted")),
      );
    },
    "aws:ec2/instance:Instance": ({ inputs: { launchTemplate, rootBlockDevice, ebsBlockDevices } }) => [
      // A launch template has the setting for its machines, and is checked itself.
      ...(launchTemplate === undefined || rootBlockDevice !== undefined
        ? encryption("rootBlockDevice.encrypted", at(rootBlockDevice, "encrypted"))
        : []),
      ...listAt(ebsBlockDevices).flatMap((disk, index) =>
        encryption(`ebsBlockDevices[${index}].encrypted`, at(disk, "encrypted")),
      ),
    ],
    // EKS's own disk for a machine follows the account's default, which is unencrypted.
    "aws:eks/nodeGroup:NodeGroup": ({ inputs }) =>
      inputs.launchTemplate === undefined
        ? encryption(
            "launchTemplate",
            undefined,
            "Give the node group a launch template whose blockDeviceMappings are encrypted.",
          )
        : [],
    "kubernetes:storage.k8s.io/v1:StorageClass": ({ inputs: { provisioner, parameters } }) =>
      provisioner === "ebs.csi.aws.com"
        ? encryption("parameters.encrypted", at(parameters, "encrypted"))
        : [],
  },
};

const CLAIM = "kubernetes:core/v1:PersistentVolumeClaim";

/** @param thing - At the start of a sentence. */
function deletion(
  thing: string,
  { options: { protect, retainOnDelete } }: CheckedResource,
): readonly Finding[] {
  if (protect === true || retainOnDelete === true) return [];
  if (retainOnDelete === null) {
    const reason = `Whether ${thing.replace("The", "the")} has retainOnDelete is unknown to policy packs.`;
    return [{ reason, fix: "`npx engine-room diff` sees it.", isUndecided: true }];
  }
  return [
    {
      reason: `${thing} has neither protect nor retainOnDelete: a destroy, or a change that replaces it, deletes what it holds.`,
      fix: "Give it `retainOnDelete: true`, or `protect: true`.",
    },
  ];
}

/** The engine store with its weights, and the databases: engines take GPU hours to rebuild, and documents can't be rebuilt. */
export const engineStoreIsProtected: Rule = {
  description: "The engine store and the databases outlive a destroy.",
  // Previews are temporary.
  previewLevel: "off",
  scope: "stack",
  checks: {
    [CLAIM]: (claim) => deletion("The claim", claim),
    // All objects of a namespace are deleted with it, claims too.
    "kubernetes:core/v1:Namespace": (namespace, { resources }) => {
      const name = at(namespace.inputs, "metadata", "name");
      const hasClaim = resources.some(
        ({ type, inputs }) => type === CLAIM && at(inputs, "metadata", "namespace") === name,
      );
      return hasClaim ? deletion("The namespace of a kept claim", namespace) : [];
    },
    "kubernetes:apps/v1:StatefulSet": ({ inputs }, { facts: { keepsDocuments } }) =>
      violatedIf(
        keepsDocuments &&
          at(inputs, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted") === "Delete",
        "persistentVolumeClaimRetentionPolicy.whenDeleted is Delete: its documents go with it.",
        "Leave it out, or write Retain.",
      ),
    "docker:index/volume:Volume": (volume, { resources }) => {
      const targets = resources
        .filter(({ type }) => type === "docker:index/container:Container")
        .flatMap(({ inputs }) => listAt(inputs.mounts))
        .filter((mount) => at(mount, "source") === (volume.inputs.name ?? ""))
        .map((mount) => at(mount, "target"));
      // Data of a running build, which may be lost.
      const isScratch = targets.length > 0 && targets.every((target) => target === "/scratch");
      return isScratch ? [] : deletion("The volume", volume);
    },
    "aws:efs/fileSystem:FileSystem": (fileSystem) => deletion("The file system", fileSystem),
    "aws:ebs/volume:Volume": (disk, { facts }) =>
      facts.keepsDocuments ? deletion("The disk of databases", disk) : [],
  },
};

const ACTIONS_FIX =
  "Name the actions that are needed; the provider's documentation of the resource lists them.";

function allowedActions(document: unknown): readonly Finding[] {
  if (document === undefined) return [];
  if (document === UNKNOWN) return undecided("the policy's document");
  const parsed = typeof document === "string" ? parsedJson(document) : document;
  if (!isMapping(parsed))
    return [{ reason: "The policy's document is not a JSON object.", fix: "Write it with JSON.stringify." }];
  return [parsed.Statement].flat().flatMap((statement, index) => {
    const path = `Statement[${index}]`;
    const [effect, notAction] = [at(statement, "Effect"), at(statement, "NotAction")];
    if (effect === UNKNOWN) return undecided(`${path}.Effect`);
    if (effect !== "Allow") return [];
    if (notAction !== undefined)
      return [{ reason: `${path} allows all actions but some (NotAction).`, fix: ACTIONS_FIX }];
    const actions = [at(statement, "Action")].flat();
    const wide = actions.find((action) => typeof action === "string" && /^(\*+|[\w-]+:\*+)$/.test(action));
    if (wide === undefined && actions.includes(UNKNOWN)) return undecided(`${path}.Action`);
    const reason = `${path} allows ${wide}: everyone with the role can do all of it.`;
    return violatedIf(wide !== undefined, reason, ACTIONS_FIX);
  });
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** AWS's own policies that allow all actions, or all of a service. */
const WIDE_POLICY = /:aws:policy\/(.*\/)?(AdministratorAccess|PowerUserAccess|\w*FullAccess)$/;

/** A policy of the stack itself has an ARN only after `up`; its document is checked. */
function widePolicy(arn: unknown): readonly Finding[] {
  const isWide = typeof arn === "string" && WIDE_POLICY.test(arn);
  return violatedIf(isWide, `${arn} allows every action, or every one of a service.`, ACTIONS_FIX);
}

export const iamActionHasNoWildcard: Rule = {
  description: "No IAM policy allows all actions, or all actions of a service.",
  scope: "resource",
  checks: {
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": ({ inputs }) => widePolicy(inputs.policyArn),
    "aws:iam/userPolicyAttachment:UserPolicyAttachment": ({ inputs }) => widePolicy(inputs.policyArn),
    "aws:iam/role:Role": ({ inputs: { assumeRolePolicy, inlinePolicies, managedPolicyArns } }) => [
      ...allowedActions(assumeRolePolicy),
      ...listAt(inlinePolicies).flatMap((inline) => allowedActions(at(inline, "policy"))),
      ...listAt(managedPolicyArns).flatMap(widePolicy),
    ],
    // AWS requires `kms:*` for the account's root in the policy of a key, or the key can be lost.
    // https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html
    "aws:kms/key:Key": () => [],
    "aws:kms/keyPolicy:KeyPolicy": () => [],
    // It limits what roles allow.
    "aws:ec2/vpcEndpoint:VpcEndpoint": () => [],
    // Policies of roles, users and groups, and of resources such as file systems and buckets.
    "aws:*": ({ inputs }) => allowedActions(inputs.policy),
  },
};
