/** Charts of others that a cluster on AWS runs, each pinned. */

export const CHART_NAMES = [
  "device-plugin",
  "dcgm-exporter",
  "cluster-autoscaler",
  "load-balancer-controller",
  "keda",
  "kube-prometheus-stack",
] as const;
export type ChartName = (typeof CHART_NAMES)[number];

/** `none`: it is not installed, and what needs it is not made; `existing`: it is there already. */
export const ADD_ON_CHOICES = ["install", "existing", "none"] as const;
export type AddOnChoice = (typeof ADD_ON_CHOICES)[number];

/** Whether a chart is there, be it installed by the stack or by somebody else. @param choices - Of the stack file. */
export function isInstalled(
  name: ChartName,
  choices: Readonly<Partial<Record<ChartName, AddOnChoice>>>,
): boolean {
  return (choices[name] ?? "install") !== "none";
}
