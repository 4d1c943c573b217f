/** What the pods of a cluster on EKS keep things on: disks for databases, the engine store's file system. Cost: none by itself. */
import { PersistentVolume } from "@pulumi/kubernetes/core/v1/persistentVolume.js";
import { StorageClass } from "@pulumi/kubernetes/storage/v1/storageClass.js";
import * as pulumi from "@pulumi/pulumi";
import { DATABASE_STORAGE_CLASS, ENGINE_VOLUME, NOMINAL_STORE_GIB } from "../../infra/plan/aws/names.ts";
import type { Labels } from "../../infra/plan/kubernetes/pod-types.ts";

interface ClusterStorageArgs {
  /** `fs-…::fsap-…`: the file system and its access point. */
  readonly volumeHandle: pulumi.Input<string>;
  readonly labels: Labels;
}

export class ClusterStorage extends pulumi.ComponentResource {
  readonly storageClass: StorageClass;
  readonly engineVolume: PersistentVolume;

  constructor(name: string, args: ClusterStorageArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:ClusterStorage", name, {}, opts);

    this.storageClass = this.#createDiskClass(name, args);
    this.engineVolume = this.#createEngineVolume(name, args);
    this.registerOutputs({});
  }

  /** https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/parameters.md */
  #createDiskClass(name: string, { labels }: ClusterStorageArgs): StorageClass {
    return new StorageClass(
      `${name}-disks`,
      {
        metadata: { name: DATABASE_STORAGE_CLASS, labels: { ...labels } },
        provisioner: "ebs.csi.aws.com",
        parameters: { type: "gp3", encrypted: "true", "csi.storage.k8s.io/fstype": "ext4" },
        // A disk is in one zone: that of the machine which the pod was given.
        volumeBindingMode: "WaitForFirstConsumer",
        allowVolumeExpansion: true,
        reclaimPolicy: "Delete",
      },
      { parent: this, deleteBeforeReplace: true },
    );
  }

  /** https://github.com/kubernetes-sigs/aws-efs-csi-driver/tree/master/examples/kubernetes/access_points */
  #createEngineVolume(name: string, { volumeHandle, labels }: ClusterStorageArgs): PersistentVolume {
    return new PersistentVolume(
      `${name}-engines`,
      {
        metadata: { name: ENGINE_VOLUME, labels: { ...labels } },
        spec: {
          capacity: { storage: `${NOMINAL_STORE_GIB}Gi` },
          accessModes: ["ReadWriteMany"],
          // The file system is the stack's, not the claim's.
          persistentVolumeReclaimPolicy: "Retain",
          storageClassName: "",
          volumeMode: "Filesystem",
          mountOptions: ["tls"],
          csi: { driver: "efs.csi.aws.com", volumeHandle },
        },
      },
      { parent: this, deleteBeforeReplace: true },
    );
  }
}
