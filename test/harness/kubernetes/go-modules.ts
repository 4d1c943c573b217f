/** Go modules that tests need: programs and files, at the versions of each folder's go.mod. */
import { join } from "node:path";

/** Folders of `go/`, each with a go.mod and a go.sum of its own: their programs need different versions of the same modules. */
export const GO_MODULES = [
  "kubeconform",
  "crds",
  "etcd",
  "kwok",
  "kube",
  "actionlint",
  "compose",
  "vale",
] as const;
export type GoModuleName = (typeof GO_MODULES)[number];

/** Modules of the tests' own cluster. */
export const CLUSTER_MODULES = ["kubeconform", "crds", "etcd", "kwok", "kube"] as const;

interface GoModule {
  /** Import paths of main packages, by the name of the program. */
  readonly programs: Readonly<Record<string, string>>;
  /** Package variables that the linker sets (`-X`), for a version of the module that has the programs. */
  readonly variables: (version: string) => Readonly<Record<string, string>>;
  /** Files kept beside the programs, by name: paths below a required module. */
  readonly files: Readonly<Record<string, string>>;
  /** Whether its packages have C code, for which the machine's C compiler is needed. */
  readonly hasC?: true;
  /** Minutes of a first build on two cores, for the line that announces it. */
  readonly buildMinutes: string;
}

const KWOK_STAGES = "sigs.k8s.io/kwok/kustomize/stage";
const KEDA_CRDS = "github.com/kedacore/keda/v2/config/crd/bases";
const PROMETHEUS_CRDS = "github.com/prometheus-operator/prometheus-operator/example/prometheus-operator-crd";
const GATEWAY_CRDS = "sigs.k8s.io/gateway-api/config/crd/standard";

const none = () => ({});

export const goModules: Readonly<Record<GoModuleName, GoModule>> = {
  kubeconform: {
    programs: { kubeconform: "github.com/yannh/kubeconform/cmd/kubeconform" },
    variables: none,
    files: {},
    buildMinutes: "1",
  },
  // Only kinds that a stack can have: the others are large, and each delays the server.
  crds: {
    programs: {},
    variables: none,
    files: {
      "scaledobjects.yaml": `${KEDA_CRDS}/keda.sh_scaledobjects.yaml`,
      "triggerauthentications.yaml": `${KEDA_CRDS}/keda.sh_triggerauthentications.yaml`,
      "servicemonitors.yaml": `${PROMETHEUS_CRDS}/monitoring.coreos.com_servicemonitors.yaml`,
      "podmonitors.yaml": `${PROMETHEUS_CRDS}/monitoring.coreos.com_podmonitors.yaml`,
      "prometheusrules.yaml": `${PROMETHEUS_CRDS}/monitoring.coreos.com_prometheusrules.yaml`,
      "gatewayclasses.yaml": `${GATEWAY_CRDS}/gateway.networking.k8s.io_gatewayclasses.yaml`,
      "gateways.yaml": `${GATEWAY_CRDS}/gateway.networking.k8s.io_gateways.yaml`,
      "httproutes.yaml": `${GATEWAY_CRDS}/gateway.networking.k8s.io_httproutes.yaml`,
    },
    buildMinutes: "1",
  },
  etcd: {
    programs: { etcd: "go.etcd.io/etcd/server/v3" },
    variables: none,
    files: {},
    buildMinutes: "1",
  },
  kwok: {
    programs: { kwok: "sigs.k8s.io/kwok/cmd/kwok" },
    variables: (version) => ({ "sigs.k8s.io/kwok/pkg/consts.Version": version }),
    // The fast ones: a pod is Running at once, one of a Job has succeeded at once, one that is deleted is gone at once.
    files: {
      "stage-node-initialize.yaml": `${KWOK_STAGES}/node/fast/node-initialize.yaml`,
      "stage-node-heartbeat.yaml": `${KWOK_STAGES}/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml`,
      "stage-pod-ready.yaml": `${KWOK_STAGES}/pod/fast/pod-ready.yaml`,
      "stage-pod-complete.yaml": `${KWOK_STAGES}/pod/fast/pod-complete.yaml`,
      "stage-pod-delete.yaml": `${KWOK_STAGES}/pod/fast/pod-delete.yaml`,
      // For pods that ask for it by a label.
      "stage-pod-fail.yaml": `${KWOK_STAGES}/pod/chaos/pod-container-running-failed.yaml`,
    },
    buildMinutes: "2",
  },
  kube: {
    programs: {
      "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
      "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
      "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    },
    // Without them the programs are version v0.0.0, and features that depend on the version are off.
    variables: (version) => {
      const [major = "", minor = ""] = version.slice(1).split(".");
      return {
        "k8s.io/component-base/version.gitVersion": version,
        "k8s.io/component-base/version.gitMajor": major,
        "k8s.io/component-base/version.gitMinor": minor,
      };
    },
    files: { "swagger.json": "k8s.io/kubernetes/api/openapi-spec/swagger.json" },
    buildMinutes: "8 to 15",
  },
  compose: {
    programs: { "docker-compose": "github.com/docker/compose/v2/cmd" },
    variables: (version) => ({ "github.com/docker/compose/v2/internal.Version": version }),
    files: {},
    buildMinutes: "4 to 7",
  },
  actionlint: {
    programs: { actionlint: "github.com/rhysd/actionlint/cmd/actionlint" },
    variables: none,
    files: {},
    buildMinutes: "1",
  },
  vale: {
    programs: { vale: "github.com/vale-cli/vale/v3/cmd/vale" },
    variables: none,
    files: {},
    hasC: true,
    buildMinutes: "3",
  },
};

/** Folder of its go.mod. */
export function sourceFolder(name: GoModuleName): string {
  return join(import.meta.dirname, "go", name);
}

/** Modules that a go.mod requires, by path; indirect ones included. */
function requiredVersions(goMod: string): ReadonlyMap<string, string> {
  const lines = goMod.matchAll(/^(?:require|\t) ?(\S+) (v\S+)(?: \/\/ indirect)?$/gm);
  return new Map([...lines].map(([, path = "", version = ""]) => [path, version] as const));
}

/** The required module of a package or file, and the rest of its path. @throws Error without such a module. */
export function requiredModule(
  goMod: string,
  path: string,
): { readonly module: string; readonly version: string; readonly rest: string } {
  const holders = [...requiredVersions(goMod)].filter(
    ([module]) => path === module || path.startsWith(`${module}/`),
  );
  const [module, version] = holders.toSorted(([a], [b]) => b.length - a.length)[0] ?? [];
  if (module === undefined || version === undefined) throw new Error(`No module of go.mod has ${path}.`);
  return { module, version, rest: path.slice(module.length + 1) };
}
