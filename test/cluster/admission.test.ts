/**
 * Objects that the API server accepts and refuses: misspelt fields, wrong types, rules of definitions of kinds and of
 * Pod Security; and checks of the same without a server: kubeconform, and rules of the standard `restricted`.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { genaiPerfJob } from "../../scripts/bench/genai-perf-job.ts";
import { clusterTarget } from "../../scripts/program/targets.ts";
import { applyAll } from "../harness/kubernetes/apply.ts";
import { bringUp } from "../harness/kubernetes/bring-up.ts";
import {
  addNamespace,
  removeNamespace,
  restrictedNamespace,
  volumeFor,
} from "../harness/kubernetes/cluster-setup.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { objectsOfYaml, SchemaCheck } from "../harness/kubernetes/kubeconform.ts";
import type { KubernetesObject } from "../harness/kubernetes/objects.ts";
import { restrictedViolations } from "../infra/plan/kubernetes/restricted.ts";
import { STACK } from "../scripts/cluster/fake-kubectl.ts";
import {
  changed,
  claim,
  defaultDeny,
  disruptionBudget,
  engineBuild,
  httpRoute,
  scaledObject,
  server,
  service,
  serviceMonitor,
} from "./sample-objects.ts";

const NAMESPACE = "admission";

const custom: readonly KubernetesObject[] = [
  scaledObject(NAMESPACE, "llama"),
  serviceMonitor(NAMESPACE, "llama"),
  httpRoute(NAMESPACE, "gateway"),
];

const refused: readonly (readonly [string, KubernetesObject, RegExp])[] = [
  [
    "a Deployment with a misspelt field",
    changed(server(NAMESPACE, "llama"), "spec.progresDeadlineSeconds", 60),
    /\.spec\.progresDeadlineSeconds: field not declared in schema/,
  ],
  [
    "a NetworkPolicy with a misspelt field",
    changed(defaultDeny(NAMESPACE), "spec.policyType", ["Ingress"]),
    /\.spec\.policyType: field not declared in schema/,
  ],
  [
    "a Job with a text in the place of a number",
    changed(engineBuild(NAMESPACE, "llama", 1), "spec.backoffLimit", "three"),
    /\.spec\.backoffLimit: expected numeric/,
  ],
  [
    "a Deployment whose selector does not match its template",
    changed(server(NAMESPACE, "llama"), "spec.selector.matchLabels", { app: "other" }),
    /`selector` does not match template `labels`/,
  ],
  [
    "a ScaledObject with a misspelt field",
    changed(scaledObject(NAMESPACE, "llama"), "spec.minReplicas", 0),
    /\.spec\.minReplicas: field not declared in schema/,
  ],
  [
    "a ScaledObject without triggers",
    changed(scaledObject(NAMESPACE, "llama"), "spec.triggers", undefined),
    /spec\.triggers: Required value/,
  ],
  [
    "a ServiceMonitor with an invalid interval",
    changed(serviceMonitor(NAMESPACE, "llama"), "spec.endpoints", [{ port: "metrics", interval: "often" }]),
    /spec\.endpoints\[0\]\.interval: Invalid value: "often"/,
  ],
  [
    "an HTTPRoute to a Service without a port, by a rule of the definition",
    changed(httpRoute(NAMESPACE, "gateway"), "spec.rules", [{ backendRefs: [{ name: "gateway" }] }]),
    /Must have port for Service reference/,
  ],
];

type Fields = Readonly<Record<string, unknown>>;

const OF_POD: Fields = { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: "RuntimeDefault" } };
const OF_CONTAINER: Fields = { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } };

function podSpec(
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

const { containers } = podSpec();

const podSpecs: readonly (readonly [string, Fields])[] = [
  ["a pod with all that the standard asks for", podSpec()],
  [
    "a pod with a seccomp profile of a file",
    podSpec({ seccompProfile: { type: "Localhost", localhostProfile: "a.json" } }),
  ],
  [
    "a container that may bind ports below 1024",
    podSpec({ capabilities: { drop: ["ALL"], add: ["NET_BIND_SERVICE"] } }),
  ],
  [
    "a pod with an emptyDir in memory",
    podSpec({}, {}, {}, { volumes: [{ name: "a", emptyDir: { medium: "Memory" } }] }),
  ],
  [
    "a pod with a harmless sysctl",
    podSpec({}, { sysctls: [{ name: "net.ipv4.ip_local_port_range", value: "1024 65535" }] }),
  ],
  ["a pod without runAsNonRoot", podSpec({}, { runAsNonRoot: undefined })],
  ["a pod of user 0", podSpec({}, { runAsUser: 0, runAsNonRoot: undefined })],
  ["a container that may be root", podSpec({ runAsNonRoot: false })],
  ["a container of user 0", podSpec({ runAsUser: 0 })],
  ["a pod without a seccomp profile", podSpec({}, { seccompProfile: undefined })],
  ["a container without seccomp", podSpec({ seccompProfile: { type: "Unconfined" } })],
  [
    "a pod without seccomp whose container has a profile",
    podSpec({ seccompProfile: { type: "RuntimeDefault" } }, { seccompProfile: { type: "Unconfined" } }),
  ],
  ["a privileged container", podSpec({ privileged: true, allowPrivilegeEscalation: undefined })],
  ["a container that may gain privileges", podSpec({ allowPrivilegeEscalation: undefined })],
  ["a container that keeps its capabilities", podSpec({ capabilities: undefined })],
  ["a container that drops a single capability", podSpec({ capabilities: { drop: ["NET_RAW"] } })],
  ["a container with an added capability", podSpec({ capabilities: { drop: ["ALL"], add: ["SYS_PTRACE"] } })],
  [
    "a pod with a folder of the host",
    podSpec({}, {}, {}, { volumes: [{ name: "a", hostPath: { path: "/" } }] }),
  ],
  [
    "a pod with a share of NFS",
    podSpec({}, {}, {}, { volumes: [{ name: "a", nfs: { server: "a", path: "/" } }] }),
  ],
  ["a pod in the host's network", podSpec({}, {}, {}, { hostNetwork: true })],
  ["a pod among the host's processes", podSpec({}, {}, {}, { hostPID: true })],
  ["a pod with the host's shared memory", podSpec({}, {}, {}, { hostIPC: true })],
  ["a container on a port of the host", podSpec({}, {}, { ports: [{ containerPort: 80, hostPort: 80 }] })],
  ["a container on port 0 of the host", podSpec({}, {}, { ports: [{ containerPort: 80, hostPort: 0 }] })],
  ["a pod with a sysctl of the kernel", podSpec({}, { sysctls: [{ name: "kernel.msgmax", value: "1" }] })],
  ["a container with all of /proc", podSpec({ procMount: "Unmasked" }, {}, {}, { hostUsers: false })],
  ["a pod with a role of SELinux", podSpec({}, { seLinuxOptions: { role: "a" } })],
  ["a container with a type of SELinux", podSpec({ seLinuxOptions: { type: "spc_t" } })],
  ["a pod without AppArmor", podSpec({}, { appArmorProfile: { type: "Unconfined" } })],
  [
    "a probe of another host",
    podSpec({}, {}, { readinessProbe: { httpGet: { host: "10.0.0.1", port: 80 } } }),
  ],
  [
    "a hook that asks another host",
    podSpec({}, {}, { lifecycle: { preStop: { httpGet: { host: "10.0.0.1", port: 80 } } } }),
  ],
  [
    "an init container that may be root",
    podSpec({}, {}, {}, { initContainers: [{ name: "first", image: "a" }] }),
  ],
  ["a pod of root's groups", podSpec({}, { runAsGroup: 0, fsGroup: 0, supplementalGroups: [0] })],
  ["a pod without any security context", { containers: [{ name: "main", image: "a" }] }],
  [
    "a pod whose containers alone have a security context",
    {
      containers: [
        { ...(containers as readonly Fields[])[0], securityContext: { ...OF_POD, ...OF_CONTAINER } },
      ],
    },
  ],
];

describeWithCluster("admission", ({ api, modules }) => {
  beforeAll(() => addNamespace(api, restrictedNamespace(NAMESPACE)));
  afterAll(() => removeNamespace(api, NAMESPACE));

  test.each(custom.map((object) => [object.kind, object] as const))(
    "the API server takes a good %s, and applying it again changes nothing",
    async (_kind, object) => {
      expect(await applyAll(api, [object])).toEqual({});
      const before = await api.get(object);
      await applyAll(api, [object]);
      expect(before?.metadata.generation).toBe(1);
      expect(await api.get(object)).toEqual(before);
    },
  );

  test.each(refused)("the API server refuses %s", async (_what, object, words) => {
    await expect(applyAll(api, [object])).rejects.toThrow(words);
  });

  test("an error of applyAll names the refused object, and later objects are not applied", async () => {
    const late = { ...serviceMonitor(NAMESPACE, "late"), metadata: { name: "late", namespace: NAMESPACE } };
    const applied = applyAll(api, [changed(httpRoute(NAMESPACE, "bad"), "spec.hostnames", ["UPPER"]), late]);
    await expect(applied).rejects.toThrow(/^gateway\.networking\.k8s\.io\/v1 HTTPRoute admission\/bad: /);
    expect(await api.get(late)).toBeUndefined();
  });

  test("an object of an undefined kind is refused", async () => {
    const unknown = { ...httpRoute(NAMESPACE, "x"), apiVersion: "example.org/v1", kind: "Unknown" };
    await expect(applyAll(api, [unknown])).rejects.toThrow("The server has no Unknown of example.org/v1.");
  });

  test("the Job of `npx engine-room bench` is taken without a warning under Pod Security `restricted`", async () => {
    const { plan } = checkedPlan({ ...STACK, models: [{ name: "gpt", model: "gpt2-medium" }] });
    if (plan.platform !== "kubernetes" || plan.tier !== "gpu") expect.fail("not GPUs in a cluster");
    const target = { ...clusterTarget(plan, "tests"), plan };
    const { object } = target.stack.namespace;
    const { name, labels } = (object ?? expect.fail("The stack creates no namespace.")).metadata;
    await bringUp(api, [{ apiVersion: "v1", kind: "Namespace", metadata: { name, labels } }]);
    try {
      const load = { concurrency: 8, requests: 100, inputTokens: 200, outputTokens: 100, seed: 0 };
      const job = genaiPerfJob(target, "gpt", load, "tests");
      const { warnings } = await api.apply({ ...job });
      expect(warnings).toEqual([]);
    } finally {
      await removeNamespace(api, name);
    }
  });

  test.each(podSpecs.map(([what, pod], index) => [what, pod, `pod-${index}`] as const))(
    "restrictedViolations judges %s as the API server does",
    async (_, pod, name) => {
      const words = await api
        .create({ apiVersion: "v1", kind: "Pod", metadata: { name, namespace: NAMESPACE }, spec: pod })
        .then(() => "", String);
      // The pods have no other faults; the server itself allows no one a privileged container.
      if (words !== "") expect(words).toMatch(/violates PodSecurity|privileged: Forbidden/);
      const violations = restrictedViolations(pod);
      expect({ violations, isRefused: violations.length > 0, words }).toMatchObject({
        isRefused: words !== "",
      });
    },
  );

  describe("with schemas of the API server", () => {
    const good: readonly KubernetesObject[] = [
      restrictedNamespace("a"),
      claim("a"),
      volumeFor(claim("a")),
      engineBuild("a", "llama-aaaaaaaaaaaa", 1),
      server("a", "llama"),
      service("a", "llama"),
      disruptionBudget("a", "llama"),
      defaultDeny("a"),
      scaledObject("a", "llama"),
      serviceMonitor("a", "llama"),
      httpRoute("a", "gateway"),
    ];
    const job = engineBuild("a", "llama", 1);
    const bad: readonly (readonly [KubernetesObject, string])[] = [
      [changed(job, "spec.backoffLimit", "three"), "Job llama /spec/backoffLimit: got string, want integer"],
      [
        changed(job, "spec.template.spec.tolerations", [{ key: "a", effekt: "NoSchedule" }]),
        "Job llama /spec/template/spec/tolerations/0: additional properties 'effekt' not allowed",
      ],
      [changed(job, "metadata.label", {}), "Job llama /metadata: additional properties 'label' not allowed"],
      [changed(job, "apiVersion", "batch/v2"), "Job llama: could not find schema for Job"],
      [
        changed(service("a", "s"), "spec.ports", [{ port: 80, targetPort: true }]),
        "Service s /spec/ports/0/targetPort: got boolean, want integer or string",
      ],
      [
        changed(scaledObject("a", "s"), "spec.maxReplicaCount", "2"),
        "ScaledObject s /spec/maxReplicaCount: got string, want integer",
      ],
      [
        changed(serviceMonitor("a", "m"), "metadata.label", {}),
        "ServiceMonitor m /metadata: additional properties 'label' not allowed",
      ],
      [
        changed(httpRoute("a", "h"), "spec.hostname", "x"),
        "HTTPRoute h /spec: additional properties 'hostname' not allowed",
      ],
    ];
    let check: SchemaCheck;
    beforeAll(() => {
      check = new SchemaCheck(modules);
    });
    afterAll(() => check?.dispose());

    test("kubeconform finds nothing wrong with objects that the API server takes", async () => {
      expect(await check.faults(good)).toEqual([]);
    });

    test("kubeconform finds the fault of each bad object in a list, and no other", async () => {
      const faults = await check.faults([...good, ...bad.map(([object]) => object)]);
      expect(faults).toHaveLength(bad.length);
      for (const [, fault] of bad) expect(faults).toContainEqual(expect.stringContaining(fault));
    });

    test("YAML with several objects is read, and YAML with a repeated key is refused", async () => {
      const text =
        "# first\napiVersion: v1\nkind: Namespace\nmetadata: { name: a }\n---\n---\napiVersion: v1\nkind: Secret\nmetadata: { name: b }\nstringdata: {}\n";
      expect(await check.faults(objectsOfYaml(text))).toEqual([
        expect.stringContaining("Secret b : additional properties 'stringdata' not allowed"),
      ]);
      expect(() => objectsOfYaml("kind: Secret\nkind: Secret\n")).toThrow(/unique/);
    });
  });
});
