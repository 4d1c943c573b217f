/** Names and sizes that several parts of a stack on AWS share. */

/** Label of machines by which pods find those of a pool. */
export const POOL_LABEL = "engine-room/pool";

/** Pool of controllers, which every cluster has; no pool of a stack file may have its name. */
export const SYSTEM_POOL = "system";

/** ServiceAccount and role of engine builds that read a secret of Secrets Manager. */
export const BUILD_SERVICE_ACCOUNT = "engine-build";

/** PersistentVolume of the engine store's file system. */
export const ENGINE_VOLUME = "engine-store";

/** Size of that volume and its claim: Kubernetes requires one, and EFS has none. */
export const NOMINAL_STORE_GIB = 1024;

/** StorageClass of the databases' disks. */
export const DATABASE_STORAGE_CLASS = "engine-room-gp3";

/** Disk of an instance's databases, after the stack's name. */
export const DATABASE_DISK = "databases";

/** Where an EC2 instance mounts the engine store. */
export const STORE_FOLDER = "/srv/engine-room/store";

/** Disk of Prometheus. */
export const METRICS_DISK_GIB = 50;

/** Files of secrets in memory of an EC2 instance: empty after each start. */
export const SECRET_FOLDER = "/run/engine-room/secrets";
