/** Rules about stored data: it is encrypted, and what took long to make outlives a destroy. */
import {
  at,
  type Check,
  type CheckedResource,
  type Finding,
  listAt,
  type Rule,
  UNKNOWN,
  undecided,
  violatedIf,
} from "../rule.ts";

/** @param path - Of the setting, as shown. */
function encryption(path: string, value: unknown): readonly Finding[] {
  if (value === UNKNOWN) return [undecided(path)];
  const setting = path === "blockDeviceMappings" ? `${path}[0].ebs.encrypted` : path;
  return violatedIf(
    // Launch templates and storage classes have texts.
    value !== true && value !== "true",
    `${path} is ${value === undefined ? "absent" : JSON.stringify(value)}: weights, engines and documents would lie on it unencrypted.`,
    path === "launchTemplate"
      ? "Give the node group a launch template whose blockDeviceMappings are encrypted."
      : `Set ${setting} to true; it can't be changed later without copying the data.`,
  );
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
  level: "mandatory",
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
      return disks.length === 0
        ? encryption("blockDeviceMappings", blockDeviceMappings)
        : disks.flatMap((disk, index) =>
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
      inputs.launchTemplate === undefined ? encryption("launchTemplate", undefined) : [],
    "kubernetes:storage.k8s.io/v1:StorageClass": (resource, stack) =>
      resource.inputs.provisioner === "ebs.csi.aws.com"
        ? encryptedBy("parameters", "encrypted")(resource, stack)
        : [],
  },
};

const CLAIM = "kubernetes:core/v1:PersistentVolumeClaim";

/** @param thing - At the start of a sentence. */
function deletion(
  thing: string,
  { options: { protect, retainOnDelete } }: CheckedResource,
): readonly Finding[] {
  if (protect !== true && retainOnDelete === null)
    return [
      {
        reason: `Whether ${thing.replace("The", "the")} has retainOnDelete is unknown to policy packs.`,
        fix: "`npm run diff` sees it.",
        isUndecided: true,
      },
    ];
  return violatedIf(
    protect !== true && retainOnDelete !== true,
    `${thing} has neither protect nor retainOnDelete: a destroy, or a change that replaces it, deletes what it holds.`,
    "Give it `retainOnDelete: true`, or `protect: true`.",
  );
}

/** The engine store with its weights, and the databases: engines take GPU hours to rebuild, and documents can't be rebuilt. */
export const engineStoreIsProtected: Rule = {
  description: "The engine store and the databases outlive a destroy.",
  level: "mandatory",
  // Previews are temporary.
  previewLevel: "off",
  scope: "stack",
  checks: {
    [CLAIM]: (claim) => deletion("The claim", claim),
    // All objects of a namespace are deleted with it, claims too.
    "kubernetes:core/v1:Namespace": (namespace, { resources }) => {
      const name = at(namespace.inputs, "metadata", "name");
      return resources.some(
        ({ type, inputs }) => type === CLAIM && at(inputs, "metadata", "namespace") === name,
      )
        ? deletion("The namespace of a kept claim", namespace)
        : [];
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
