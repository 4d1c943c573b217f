/**
 * The Pod Security standard `restricted`: https://kubernetes.io/docs/concepts/security/pod-security-standards/, so that a unit test can
 * ask it of hundreds of pods. test/cluster/admission.test.ts holds it to the API server's own admission.
 */

type Tree = Readonly<Record<string, unknown>>;

const ALLOWED_VOLUMES = [
  "configMap",
  "csi",
  "downwardAPI",
  "emptyDir",
  "ephemeral",
  "persistentVolumeClaim",
  "projected",
  "secret",
];

/** Values of `sysctls` in the standard for Kubernetes 1.36: they do not affect a machine's other pods. */
const ALLOWED_SYSCTLS = [
  "kernel.shm_rmid_forced",
  "net.ipv4.ip_local_port_range",
  "net.ipv4.ip_local_reserved_ports",
  "net.ipv4.ip_unprivileged_port_start",
  "net.ipv4.ping_group_range",
  "net.ipv4.tcp_fin_timeout",
  "net.ipv4.tcp_keepalive_intvl",
  "net.ipv4.tcp_keepalive_probes",
  "net.ipv4.tcp_keepalive_time",
  "net.ipv4.tcp_rmem",
  "net.ipv4.tcp_syncookies",
  "net.ipv4.tcp_wmem",
];

const ALLOWED_SELINUX_TYPES = [
  "",
  "container_t",
  "container_init_t",
  "container_kvm_t",
  "container_engine_t",
];

const ALLOWED_PROFILES = ["RuntimeDefault", "Localhost"];

/** Violations of the standard in a pod's spec. */
export function restrictedViolations(spec: Tree): readonly string[] {
  const pod = treeAt(spec, "securityContext");
  const containers = ["containers", "initContainers"].flatMap((key) => treesAt(spec, key));
  return [
    ...["hostNetwork", "hostPID", "hostIPC"].filter((key) => spec[key] === true),
    ...treesAt(spec, "volumes").flatMap(({ name: _, ...source }) =>
      Object.keys(source).filter((kind) => !ALLOWED_VOLUMES.includes(kind)),
    ),
    ...treesAt(pod, "sysctls").flatMap(({ name }) =>
      ALLOWED_SYSCTLS.includes(String(name)) ? [] : [`sysctl ${name}`],
    ),
    ...[pod, ...containers.map((container) => treeAt(container, "securityContext"))].flatMap(
      profileViolations,
    ),
    ...containers.flatMap((container) => containerViolations(container, pod)),
  ];
}

/** Violations that a pod and a container can have alike. */
function profileViolations(own: Tree): readonly string[] {
  const { type = "", user, role } = treeAt(own, "seLinuxOptions");
  const isAllowed = (key: string) => {
    const profile = treeAt(own, key).type;
    return profile === undefined || ALLOWED_PROFILES.includes(String(profile));
  };
  return [
    ...(ALLOWED_SELINUX_TYPES.includes(String(type)) && !user && !role ? [] : ["seLinuxOptions"]),
    ...["seccompProfile", "appArmorProfile"].filter((key) => !isAllowed(key)),
  ];
}

function containerViolations(container: Tree, pod: Tree): readonly string[] {
  const own = treeAt(container, "securityContext");
  const capabilities = treeAt(own, "capabilities");
  const lifecycle = treeAt(container, "lifecycle");
  const handlers = [
    ...["livenessProbe", "readinessProbe", "startupProbe"].map((key) => treeAt(container, key)),
    ...["postStart", "preStop"].map((key) => treeAt(lifecycle, key)),
  ];
  return [
    ...(own.privileged === true ? ["privileged"] : []),
    ...(own.allowPrivilegeEscalation === false ? [] : ["allowPrivilegeEscalation"]),
    ...((own.runAsNonRoot ?? pod.runAsNonRoot) === true ? [] : ["runAsNonRoot"]),
    ...((own.runAsUser ?? pod.runAsUser) === 0 ? ["runAsUser"] : []),
    ...((treeAt(own, "seccompProfile").type ?? treeAt(pod, "seccompProfile").type) === undefined
      ? ["seccompProfile"]
      : []),
    ...((own.procMount ?? "Default") === "Default" ? [] : ["procMount"]),
    ...(((capabilities.drop ?? []) as readonly string[]).includes("ALL") ? [] : ["capabilities.drop"]),
    ...((capabilities.add ?? []) as readonly string[]).filter((one) => one !== "NET_BIND_SERVICE"),
    ...treesAt(container, "ports").flatMap(({ hostPort }) => (hostPort ? ["hostPort"] : [])),
    ...handlers.flatMap((handler) =>
      ["httpGet", "tcpSocket"].filter((kind) => treeAt(handler, kind).host).map((kind) => `${kind}.host`),
    ),
  ];
}

function treeAt(tree: Tree, key: string): Tree {
  return (tree[key] ?? {}) as Tree;
}

function treesAt(tree: Tree, key: string): readonly Tree[] {
  return (tree[key] ?? []) as readonly Tree[];
}
