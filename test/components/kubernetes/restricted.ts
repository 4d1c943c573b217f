/** The Pod Security standard `restricted`: https://kubernetes.io/docs/concepts/security/pod-security-standards/ */

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

/** What of a pod's spec the standard refuses; empty where it takes it. */
export function restrictedViolations(spec: Tree): readonly string[] {
  const pod = treeAt(spec, "securityContext");
  const containers = ["containers", "initContainers"].flatMap((key) => (spec[key] ?? []) as readonly Tree[]);
  return [
    ...["hostNetwork", "hostPID", "hostIPC"].filter((key) => spec[key] === true),
    ...((spec.volumes ?? []) as readonly Tree[]).flatMap(({ name: _, ...source }) =>
      Object.keys(source).filter((kind) => !ALLOWED_VOLUMES.includes(kind)),
    ),
    ...containers.flatMap((container) => {
      const own = treeAt(container, "securityContext");
      const capabilities = treeAt(own, "capabilities");
      const profile = treeAt(own, "seccompProfile").type ?? treeAt(pod, "seccompProfile").type;
      return [
        ...(own.privileged === true ? ["privileged"] : []),
        ...(own.allowPrivilegeEscalation === false ? [] : ["allowPrivilegeEscalation"]),
        ...((own.runAsNonRoot ?? pod.runAsNonRoot) === true ? [] : ["runAsNonRoot"]),
        ...((own.runAsUser ?? pod.runAsUser) === 0 ? ["runAsUser"] : []),
        ...(profile === "RuntimeDefault" || profile === "Localhost" ? [] : ["seccompProfile"]),
        ...(((capabilities.drop ?? []) as readonly string[]).includes("ALL") ? [] : ["capabilities.drop"]),
        ...((capabilities.add ?? []) as readonly string[]).filter((one) => one !== "NET_BIND_SERVICE"),
        ...((container.ports ?? []) as readonly Tree[]).flatMap(({ hostPort }) =>
          hostPort === undefined ? [] : ["hostPort"],
        ),
      ];
    }),
  ];
}

function treeAt(tree: Tree, key: string): Tree {
  return (tree[key] ?? {}) as Tree;
}
