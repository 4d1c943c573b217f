import type { KubernetesObject } from "./objects.ts";

const STAGE = "pod-container-running-failed.stage.kwok.x-k8s.io";

interface PodTemplate {
  readonly metadata?: { readonly labels?: object; readonly annotations?: object };
}

/** A Job whose pods end with an exit code; all others succeed here. KWOK looks at labels and annotations of the pods. */
export function failingJob(job: KubernetesObject, exitCode: number): KubernetesObject {
  const spec = job.spec as { readonly template: PodTemplate };
  const { metadata = {} } = spec.template;
  const asked = {
    labels: { ...metadata.labels, [STAGE]: "true" },
    annotations: {
      ...metadata.annotations,
      [`${STAGE}/exit-code`]: `${exitCode}`,
      [`${STAGE}/delay`]: "0s",
      [`${STAGE}/jitter-delay`]: "0s",
    },
  };
  return { ...job, spec: { ...spec, template: { ...spec.template, metadata: { ...metadata, ...asked } } } };
}
