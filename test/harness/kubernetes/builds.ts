import type { ApiServer } from "./api-server.ts";
import type { KubernetesObject } from "./objects.ts";

const STAGE = "pod-container-running-failed.stage.kwok.x-k8s.io";

interface PodTemplate {
  readonly metadata?: { readonly labels?: object; readonly annotations?: object };
}

/** A Job whose pods end with an exit code; all others succeed here. KWOK looks at labels and annotations of the pods. */
export function failingJob(job: KubernetesObject, exitCode: number): KubernetesObject {
  const spec = job.spec as { readonly template: PodTemplate };
  const { metadata = {} } = spec.template;
  const { labels, annotations } = failure(exitCode);
  const asked = {
    labels: { ...metadata.labels, ...labels },
    annotations: { ...metadata.annotations, ...annotations },
  };
  return { ...job, spec: { ...spec, template: { ...spec.template, metadata: { ...metadata, ...asked } } } };
}

/**
 * The same for a pod that has not begun to run.
 *
 * @param message - Termination message of its container, as plain YAML: no colon.
 */
export function failPod(
  api: ApiServer,
  pod: KubernetesObject,
  exitCode: number,
  message: string,
): Promise<void> {
  const { labels, annotations } = failure(exitCode);
  return api.patch(pod, {
    metadata: { labels, annotations: { ...annotations, [`${STAGE}/message`]: message } },
  });
}

function failure(exitCode: number) {
  return {
    labels: { [STAGE]: "true" },
    annotations: {
      [`${STAGE}/exit-code`]: `${exitCode}`,
      [`${STAGE}/delay`]: "0s",
      [`${STAGE}/jitter-delay`]: "0s",
    },
  };
}
