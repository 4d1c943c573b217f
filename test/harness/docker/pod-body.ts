/** A pod's template as the body of the Docker Engine API's `POST /containers/create`: what the kubelet would ask a runtime for. */
import { join } from "node:path";
import type { types } from "@pulumi/kubernetes";

/** A pod's template as the API server gets it: without outputs. */
interface PlainTemplate {
  readonly spec: {
    readonly securityContext: { readonly runAsUser: number; readonly runAsGroup: number };
    readonly containers: readonly [
      {
        readonly command?: readonly string[];
        readonly args?: readonly string[];
        readonly env?: readonly { readonly name: string; readonly value: string }[];
        readonly securityContext: { readonly readOnlyRootFilesystem: boolean };
        readonly volumeMounts: readonly {
          readonly name: string;
          readonly mountPath: string;
          readonly readOnly?: boolean;
        }[];
      },
    ];
    readonly volumes: readonly {
      readonly name: string;
      readonly emptyDir?: { readonly sizeLimit: string };
      readonly persistentVolumeClaim?: { readonly claimName: string };
      readonly configMap?: { readonly name: string };
    }[];
  };
}

interface PodFolders {
  /** Folder of the host for every claim. */
  readonly claim: string;
  /** Folder of the host with a folder for each ConfigMap. */
  readonly configMaps: string;
}

/**
 * Its only container: command line, environment, user, capabilities, root and volumes. A claim is a folder of the host, an
 * emptyDir memory of its size. It has no network.
 *
 * @throws Error for a volume of another kind.
 */
export function podBody(
  template: types.input.core.v1.PodTemplateSpec,
  image: string,
  folders: PodFolders,
): object {
  const { spec } = template as unknown as PlainTemplate;
  const [{ command, args, env = [], securityContext, volumeMounts }] = spec.containers;
  const { runAsUser, runAsGroup } = spec.securityContext;
  const mounted = volumeMounts.map((mount) => {
    const volume = spec.volumes.find(({ name }) => name === mount.name);
    if (volume === undefined) throw new Error(`The pod has no volume ${mount.name}.`);
    return { ...mount, volume };
  });
  return {
    Image: image,
    ...(command === undefined ? {} : { Entrypoint: command }),
    ...(args === undefined ? {} : { Cmd: args }),
    Env: env.map(({ name, value }) => `${name}=${value}`),
    User: `${runAsUser}:${runAsGroup}`,
    HostConfig: {
      NetworkMode: "none",
      ReadonlyRootfs: securityContext.readOnlyRootFilesystem,
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges"],
      Tmpfs: Object.fromEntries(
        mounted.flatMap(({ mountPath, volume: { emptyDir } }) =>
          // The kubelet's is writable for all users and allows programs; Docker gives it the mode of the image's
          // folder.
          emptyDir === undefined
            ? []
            : [[mountPath, `exec,uid=${runAsUser},gid=${runAsGroup},size=${bytes(emptyDir.sizeLimit)}`]],
        ),
      ),
      Mounts: mounted.flatMap(({ mountPath, readOnly = false, volume }) => {
        const source = hostFolder(volume, folders);
        return source === null
          ? []
          : [{ Type: "bind", Source: source, Target: mountPath, ReadOnly: readOnly }];
      }),
    },
  };
}

/** null: an emptyDir. */
function hostFolder(
  { name, emptyDir, persistentVolumeClaim, configMap }: PlainTemplate["spec"]["volumes"][number],
  { claim, configMaps }: PodFolders,
): string | null {
  if (emptyDir !== undefined) return null;
  if (persistentVolumeClaim !== undefined) return claim;
  if (configMap !== undefined) return join(configMaps, configMap.name);
  throw new Error(`No folder stands for the volume ${name}.`);
}

function bytes(sizeLimit: string): number {
  const [, mebibytes] = /^(\d+)Mi$/.exec(sizeLimit) ?? [];
  if (mebibytes === undefined) throw new Error(`${sizeLimit} is not in Mi.`);
  return Number(mebibytes) * 2 ** 20;
}
