/**
 * Disks, file systems and databases are encrypted. ECR and S3 are not looked at: AWS encrypts every image and, since
 * January 2023, every object, and neither can be switched off.
 * https://docs.aws.amazon.com/AmazonS3/latest/userguide/default-encryption-faq.html
 * https://docs.aws.amazon.com/AmazonECR/latest/userguide/encryption-at-rest.html
 */
import { type CheckedResource, type ResourceFinding, type Rule, UNKNOWN, undecided } from "../rule.ts";
import { at, listAt } from "../values.ts";

/** A place in a resource where it says whether something is encrypted. */
interface Setting {
  readonly what: string;
  readonly value: unknown;
}

/** Types that are unencrypted unless they say otherwise, with where they say so. Property names of @pulumi/aws 7. */
const settings: Readonly<Record<string, (inputs: CheckedResource["inputs"]) => readonly Setting[]>> = {
  "aws:efs/fileSystem:FileSystem": ofKey("encrypted"),
  "aws:ebs/volume:Volume": ofKey("encrypted"),
  "aws:rds/instance:Instance": ofKey("storageEncrypted"),
  "aws:rds/cluster:Cluster": ofKey("storageEncrypted"),
  "aws:docdb/cluster:Cluster": ofKey("storageEncrypted"),
  "aws:elasticache/replicationGroup:ReplicationGroup": ofKey("atRestEncryptionEnabled"),
  "aws:opensearch/domain:Domain": (inputs) => [
    { what: "encryptAtRest.enabled", value: at(inputs, "encryptAtRest", "enabled") },
  ],
  // Without a mapping the volume of the machine image stays as the image has it.
  "aws:ec2/launchTemplate:LaunchTemplate": (inputs) => {
    const disks = listAt(inputs, "blockDeviceMappings").filter((mapping) => at(mapping, "ebs") !== undefined);
    if (disks.length === 0)
      return [{ what: "blockDeviceMappings", value: at(inputs, "blockDeviceMappings") }];
    return disks.map((mapping, index) => ({
      what: `blockDeviceMappings[${index}].ebs.encrypted`,
      value: at(mapping, "ebs", "encrypted"),
    }));
  },
  "aws:ec2/instance:Instance": (inputs) => [
    // A launch template says it for the machine, and is looked at itself.
    ...(at(inputs, "launchTemplate") === undefined || at(inputs, "rootBlockDevice") !== undefined
      ? [{ what: "rootBlockDevice.encrypted", value: at(inputs, "rootBlockDevice", "encrypted") }]
      : []),
    ...listAt(inputs, "ebsBlockDevices").map((disk, index) => ({
      what: `ebsBlockDevices[${index}].encrypted`,
      value: at(disk, "encrypted"),
    })),
  ],
  // The disk that EKS itself gives a machine follows the account's default, which is unencrypted.
  "aws:eks/nodeGroup:NodeGroup": (inputs) =>
    at(inputs, "launchTemplate") === undefined ? [{ what: "launchTemplate", value: undefined }] : [],
  "kubernetes:storage.k8s.io/v1:StorageClass": (inputs) =>
    at(inputs, "provisioner") === "ebs.csi.aws.com"
      ? [{ what: "parameters.encrypted", value: at(inputs, "parameters", "encrypted") }]
      : [],
};

function ofKey(key: string): (inputs: CheckedResource["inputs"]) => readonly Setting[] {
  return (inputs) => [{ what: key, value: inputs[key] }];
}

export const storageIsEncrypted: Rule = {
  description: "Disks, file systems and databases are encrypted.",
  scope: "resource",
  check({ type, inputs }) {
    return (settings[type]?.(inputs) ?? []).flatMap(({ what, value }): readonly ResourceFinding[] => {
      // Launch templates and storage classes have texts.
      if (value === true || value === "true") return [];
      if (value === UNKNOWN) return [undecided(what)];
      return [
        {
          reason: `${what} is ${value === undefined ? "absent" : JSON.stringify(value)}: weights, engines and documents would lie on it unencrypted.`,
          fix:
            what === "launchTemplate"
              ? "Give the node group a launch template whose blockDeviceMappings are encrypted."
              : `Set ${what === "blockDeviceMappings" ? `${what}[0].ebs.encrypted` : what} to true; it can't be changed later without copying the data.`,
        },
      ];
    });
  },
};
