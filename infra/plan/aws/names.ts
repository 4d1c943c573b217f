/** Names that several parts of a stack on AWS share, and placeholders for values that AWS assigns. */

/** Label of machines by which pods find those of a pool. */
export const POOL_LABEL = "engine-room/pool";

/** Pool of controllers, which every cluster has; no pool of a stack file may have its name. */
export const SYSTEM_POOL = "system";

/** Labels of its machines. */
export const SYSTEM_NODES = { [POOL_LABEL]: SYSTEM_POOL };

/** ServiceAccount of engine builds that read a secret of Secrets Manager. */
export const BUILD_SERVICE_ACCOUNT = "engine-build";

/** PersistentVolume of the engine store's file system. */
export const ENGINE_VOLUME = "engine-store";

/** Size of that volume and its claim: Kubernetes requires one, and EFS has none. */
export const NOMINAL_STORE_GIB = 1024;

/** StorageClass of the databases' disks. */
export const DATABASE_STORAGE_CLASS = "engine-room-gp3";

/** Release of kube-prometheus-stack; its Prometheus finds monitors and rules by the label `release`. */
export const MONITORING_RELEASE = "kube-prometheus-stack";

/** Namespace of NVIDIA's exporter of GPU metrics. */
export const GPU_EXPORTER_NAMESPACE = "gpu-metrics";

/** Disk of an instance's databases, after the stack's name. */
export const DATABASE_DISK = "databases";

/** Where an EC2 instance mounts the engine store. */
export const STORE_FOLDER = "/srv/engine-room/store";

/** File in memory of an EC2 instance. */
export const HUB_TOKEN_FILE = "/run/engine-room/secrets/hub-token";

/** `${name}`; variables of IAM's policies have a colon, `${aws:PrincipalTag/…}`, and are no placeholders. */
const PLACEHOLDER = /\$\{([A-Za-z]\w*)\}/g;

/** Placeholder in a text of a plan for a value that is known only once a resource exists. */
export function placeholder(name: string): string {
  return `\${${name}}`;
}

/** Names of the placeholders of a text, sorted. */
export function placeholderNames(text: string): readonly string[] {
  return [...new Set([...text.matchAll(PLACEHOLDER)].map(([, name = ""]) => name))].sort();
}

/** @throws Error where a placeholder of the text has no value. */
export function filledText(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(PLACEHOLDER, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`No value was given for ${name} in ${text}`);
    return value;
  });
}
