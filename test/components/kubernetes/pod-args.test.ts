import { describe, expect, test } from "vitest";
import { podTemplate } from "../../../components/kubernetes/pod-args.ts";
import type { PodPlan } from "../../../infra/plan/kubernetes/pod-types.ts";
import {
  clusterPlan,
  clusterStack,
  clusterValues,
  exampleValues,
  first,
  fullValues,
  lockedImages,
  podsOf,
} from "../../infra/plan/kubernetes/stacks.ts";
import { restrictedViolations } from "./restricted.ts";

const placed = {
  images: lockedImages(clusterPlan({ ...clusterValues, databases: "container" })),
  imagePullSecrets: [],
  secretUids: {},
};

/** The inputs as the API gets them: nothing in them is an output here. */
interface Template {
  readonly metadata: { readonly labels: object; readonly annotations?: object };
  readonly spec: {
    readonly [key: string]: unknown;
    readonly volumes: readonly { readonly name: string; readonly [source: string]: unknown }[];
    readonly containers: readonly [
      {
        readonly [key: string]: unknown;
        readonly volumeMounts: readonly {
          readonly name: string;
          readonly mountPath: string;
          readonly readOnly?: boolean;
        }[];
      },
    ];
  };
}
const templateOf = (pod: PodPlan, options = {}) => podTemplate(pod, placed, options) as unknown as Template;

const stacks = [
  clusterStack(clusterValues),
  clusterStack({ ...clusterValues, databases: "container" }),
  clusterStack(fullValues),
  clusterStack(exampleValues("llama-2-7b-chat-kubernetes")),
];
const pods = stacks.flatMap(podsOf);

describe("every pod", () => {
  test("is one that the Pod Security standard `restricted` takes", () => {
    for (const pod of pods)
      expect([pod.role, restrictedViolations(templateOf(pod).spec)]).toEqual([pod.role, []]);
  });

  test("would not be taken without what it says of itself", () => {
    const { securityContext: _, ...bare } = templateOf(first(pods)).spec;
    expect(restrictedViolations(bare)).toEqual(["seccompProfile"]);
    expect(restrictedViolations({ ...bare, containers: [{}], hostNetwork: true })).toEqual([
      "hostNetwork",
      "allowPrivilegeEscalation",
      "runAsNonRoot",
      "seccompProfile",
      "capabilities.drop",
    ]);
    expect(restrictedViolations({ containers: [], volumes: [{ name: "a", hostPath: {} }] })).toEqual([
      "hostPath",
    ]);
  });

  test("writes nowhere but into its volumes, and is nobody to the API server", () => {
    for (const pod of pods) {
      const { spec } = templateOf(pod);
      expect(spec).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false });
      expect(spec.containers[0].securityContext).toMatchObject({ readOnlyRootFilesystem: true });
    }
  });

  test("mounts volumes that it has, each at a place of its own", () => {
    for (const pod of pods) {
      const { spec } = templateOf(pod);
      const own = pod.volumes.flatMap(({ name, source }) => (source.kind === "ownClaim" ? [name] : []));
      const mounts = spec.containers[0].volumeMounts;
      expect(mounts.map(({ name }) => name).sort()).toEqual(
        [...spec.volumes.map(({ name }) => name), ...own].sort(),
      );
      expect(new Set(mounts.map(({ name }) => name)).size).toBe(mounts.length);
      expect(new Set(mounts.map(({ mountPath }) => mountPath)).size).toBe(mounts.length);
    }
  });

  test("runs an image by its digest", () => {
    for (const pod of pods) expect(templateOf(pod).spec.containers[0].image).toMatch(/@sha256:[0-9a-f]{64}$/);
  });

  test("is found by its selector", () => {
    for (const pod of pods) expect(templateOf(pod).metadata.labels).toMatchObject(pod.selector);
  });
});

describe("a Triton", () => {
  const { pod } = first(clusterStack(clusterValues).models);
  const { spec } = templateOf(pod);

  test("has its GPU as request and limit, and no limit of memory, which is an estimate", () => {
    expect(spec.containers[0].resources).toEqual({
      requests: { cpu: "2500m", memory: "8960Mi", "ephemeral-storage": "2Gi", "nvidia.com/gpu": "1" },
      limits: { "nvidia.com/gpu": "1" },
    });
  });

  test("is drained before it is stopped", () => {
    expect(spec.containers[0].lifecycle).toEqual({ preStop: { exec: { command: ["sleep", "10"] } } });
    expect(spec.terminationGracePeriodSeconds).toBe(330);
  });

  test("is asked on its own ports", () => {
    expect(spec.containers[0].ports).toEqual([
      { name: "http", containerPort: 8000, protocol: "TCP" },
      { name: "grpc", containerPort: 8001, protocol: "TCP" },
      { name: "metrics", containerPort: 8002, protocol: "TCP" },
    ]);
    expect(spec.containers[0].livenessProbe).toEqual({
      httpGet: { path: "/v2/health/live", port: 8000 },
      periodSeconds: 10,
      timeoutSeconds: 5,
      failureThreshold: 6,
    });
  });

  test("has the store read-only, and its shared memory in memory", () => {
    expect(spec.containers[0].volumeMounts).toContainEqual({
      name: "store",
      mountPath: "/store",
      readOnly: true,
    });
    expect(spec.volumes).toContainEqual({
      name: "shared-memory",
      emptyDir: { medium: "Memory", sizeLimit: "2048Mi" },
    });
  });

  test("keeps away from the other pods of its name where it can", () => {
    expect(spec.topologySpreadConstraints).toEqual([
      {
        maxSkew: 1,
        topologyKey: "kubernetes.io/hostname",
        whenUnsatisfiable: "ScheduleAnyway",
        labelSelector: { matchLabels: pod.selector },
      },
    ]);
  });
});

describe("a build", () => {
  test("runs once, with its token in a file that its group alone reads", () => {
    const { spec } = templateOf(first(clusterStack(fullValues).builds).pod, { isTask: true });
    expect(spec.restartPolicy).toBe("Never");
    expect(spec.volumes).toContainEqual({
      name: "secret-hub-token",
      secret: { secretName: "hub-token", defaultMode: 0o440, items: [{ key: "value", path: "value" }] },
    });
    expect(spec.containers[0].volumeMounts).toContainEqual({
      name: "secret-hub-token",
      mountPath: "/run/secrets/hub-token",
      readOnly: true,
    });
  });

  test("keeps away from servers whose GPU is shared in time", () => {
    const { pod } = first(clusterStack(exampleValues("llama-2-7b-chat-kubernetes")).builds);
    expect(templateOf(pod).spec.affinity).toEqual({
      podAntiAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: [
          {
            labelSelector: {
              matchLabels: { "app.kubernetes.io/instance": "demo" },
              matchExpressions: [
                { key: "app.kubernetes.io/component", operator: "In", values: ["triton", "engineBuild"] },
              ],
            },
            topologyKey: "kubernetes.io/hostname",
          },
        ],
      },
    });
  });
});

test("a pod whose image was not given is an error", () => {
  const { pod } = first(clusterStack(clusterValues).models);
  expect(() => podTemplate(pod, { ...placed, images: [] })).toThrow(/trtllm/);
});
