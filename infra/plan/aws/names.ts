/** Names that several parts of a stack on AWS agree on. */

/** Of machines, by which pods find those of a pool. */
export const POOL_LABEL = "engine-room/pool";

/** Pool that every cluster has for controllers; no pool of a stack file may have its name. */
export const SYSTEM_POOL = "system";

/** Labels of its machines. */
export const SYSTEM_NODES = { [POOL_LABEL]: SYSTEM_POOL } as const;

/** ServiceAccount of engine builds, where they read a secret of Secrets Manager. */
export const BUILD_SERVICE_ACCOUNT = "engine-build";

/** PersistentVolume of the engine store's file system. */
export const ENGINE_VOLUME = "engine-store";

/** Of that volume and its claim: Kubernetes wants a size, and EFS has none. */
export const NOMINAL_STORE_GIB = 1024;

/** StorageClass of the databases' disks. */
export const DATABASE_STORAGE_CLASS = "engine-room-gp3";

/** Name of the release of kube-prometheus-stack, by whose label its Prometheus finds monitors and rules. */
export const MONITORING_RELEASE = "kube-prometheus-stack";

/** Of NVIDIA's exporter of GPU metrics. */
export const GPU_EXPORTER_NAMESPACE = "gpu-metrics";

/** What the disk of an instance's databases is, after the stack's name. */
export const DATABASE_DISK = "databases";

/** Where an EC2 instance has the engine store's file system. */
export const STORE_FOLDER = "/srv/engine-room/store";

/** In memory of an EC2 instance. */
export const HUB_TOKEN_FILE = "/run/engine-room/secrets/hub-token";
