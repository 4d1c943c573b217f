/** The tests' own rules of the Pod Security standard `restricted` refuse what the API server's admission refuses, and take the rest. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { restrictedViolations } from "../components/kubernetes/restricted.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { addNamespace, removeNamespace, restrictedNamespace } from "../harness/kubernetes/scenes.ts";

const NAMESPACE = "pod-security";

type Fields = Readonly<Record<string, unknown>>;

const OF_POD: Fields = { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: "RuntimeDefault" } };
const OF_CONTAINER: Fields = { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } };

function spec(
  ofContainer: Fields = {},
  ofPod: Fields = {},
  container: Fields = {},
  pod: Fields = {},
): Fields {
  return {
    securityContext: { ...OF_POD, ...ofPod },
    containers: [
      {
        name: "main",
        image: "example.org/a:1",
        securityContext: { ...OF_CONTAINER, ...ofContainer },
        ...container,
      },
    ],
    ...pod,
  };
}

const { containers } = spec();

const specs: readonly (readonly [string, Fields])[] = [
  ["all that it asks for", spec()],
  ["a profile of its own", spec({ seccompProfile: { type: "Localhost", localhostProfile: "a.json" } })],
  ["a port below 1024", spec({ capabilities: { drop: ["ALL"], add: ["NET_BIND_SERVICE"] } })],
  ["a memory of its own", spec({}, {}, {}, { volumes: [{ name: "a", emptyDir: { medium: "Memory" } }] })],
  [
    "a harmless sysctl",
    spec({}, { sysctls: [{ name: "net.ipv4.ip_local_port_range", value: "1024 65535" }] }),
  ],
  ["no user that is not root", spec({}, { runAsNonRoot: undefined })],
  ["root", spec({}, { runAsUser: 0, runAsNonRoot: undefined })],
  ["a container that may be root", spec({ runAsNonRoot: false })],
  ["a container that is root", spec({ runAsUser: 0 })],
  ["no profile", spec({}, { seccompProfile: undefined })],
  ["no profile of a container", spec({ seccompProfile: { type: "Unconfined" } })],
  [
    "no profile of the pod, and one of its container",
    spec({ seccompProfile: { type: "RuntimeDefault" } }, { seccompProfile: { type: "Unconfined" } }),
  ],
  ["a privileged container", spec({ privileged: true, allowPrivilegeEscalation: undefined })],
  ["more rights than at its start", spec({ allowPrivilegeEscalation: undefined })],
  ["capabilities that are kept", spec({ capabilities: undefined })],
  ["capabilities that are kept but one", spec({ capabilities: { drop: ["NET_RAW"] } })],
  ["a capability more", spec({ capabilities: { drop: ["ALL"], add: ["SYS_PTRACE"] } })],
  ["a folder of the host", spec({}, {}, {}, { volumes: [{ name: "a", hostPath: { path: "/" } }] })],
  ["a share of NFS", spec({}, {}, {}, { volumes: [{ name: "a", nfs: { server: "a", path: "/" } }] })],
  ["the host's network", spec({}, {}, {}, { hostNetwork: true })],
  ["the host's processes", spec({}, {}, {}, { hostPID: true })],
  ["the host's memory", spec({}, {}, {}, { hostIPC: true })],
  ["a port of the host", spec({}, {}, { ports: [{ containerPort: 80, hostPort: 80 }] })],
  ["a port of the host that is none", spec({}, {}, { ports: [{ containerPort: 80, hostPort: 0 }] })],
  ["a sysctl of the kernel", spec({}, { sysctls: [{ name: "kernel.msgmax", value: "1" }] })],
  ["all of /proc", spec({ procMount: "Unmasked" }, {}, {}, { hostUsers: false })],
  ["a role of SELinux", spec({}, { seLinuxOptions: { role: "a" } })],
  ["a type of SELinux of a container", spec({ seLinuxOptions: { type: "spc_t" } })],
  ["no AppArmor", spec({}, { appArmorProfile: { type: "Unconfined" } })],
  ["a probe of another host", spec({}, {}, { readinessProbe: { httpGet: { host: "10.0.0.1", port: 80 } } })],
  [
    "a hook that asks another host",
    spec({}, {}, { lifecycle: { preStop: { httpGet: { host: "10.0.0.1", port: 80 } } } }),
  ],
  [
    "a first container that may be root",
    spec({}, {}, {}, { initContainers: [{ name: "first", image: "a" }] }),
  ],
  ["a group that is root's", spec({}, { runAsGroup: 0, fsGroup: 0, supplementalGroups: [0] })],
  ["no word on its containers", { containers: [{ name: "main", image: "a" }] }],
  [
    "words of each container alone",
    {
      containers: [
        { ...(containers as readonly Fields[])[0], securityContext: { ...OF_POD, ...OF_CONTAINER } },
      ],
    },
  ],
];

describeWithCluster("the tests' rules of `restricted`", ({ api }) => {
  beforeAll(() => addNamespace(api, restrictedNamespace(NAMESPACE)));
  afterAll(() => removeNamespace(api, NAMESPACE));

  test.each(specs.map(([what, pod], index) => [what, pod, `pod-${index}`] as const))(
    "are the server's for a pod with %s",
    async (_, pod, name) => {
      const words = await api
        .create({ apiVersion: "v1", kind: "Pod", metadata: { name, namespace: NAMESPACE }, spec: pod })
        .then(() => "", String);
      // Nothing else is wrong with it; the server itself allows nobody a privileged container.
      if (words !== "") expect(words).toMatch(/violates PodSecurity|privileged: Forbidden/);
      const violations = restrictedViolations(pod);
      expect({ violations, isRefused: violations.length > 0, words }).toMatchObject({
        isRefused: words !== "",
      });
    },
  );
});
