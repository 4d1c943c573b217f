/** Charts of others in a cluster, each with a role of its own where it calls AWS. Cost: the disk of Prometheus, about 4 USD a month. */
import { Release } from "@pulumi/kubernetes/helm/v3/release.js";
import * as pulumi from "@pulumi/pulumi";
import { filledText, mapTexts, placeholderNames, requireValues } from "../../infra/plan/aws/placeholders.ts";
import type { AwsContext, ChartPlan } from "../../infra/plan/aws/types.ts";
import type { ChartName } from "../../infra/plan/catalogue/charts.ts";
import { WorkloadRole } from "./workload-role.ts";

interface ChartsArgs {
  readonly context: AwsContext;
  readonly charts: readonly ChartPlan[];
  /** Of `${name}` in their values. */
  readonly inputs: Readonly<Record<string, pulumi.Input<string>>>;
  readonly clusterName: pulumi.Input<string>;
  /**
   * With it goes what a chart has made in it. Said of each release and not of the component, whose children would inherit it
   * in the engine: a role is not in the cluster, and would stay without an owner.
   */
  readonly cluster: pulumi.Resource;
  /** What must be there before: machines to run on, the class of disks. */
  readonly after: readonly pulumi.Resource[];
}

/** Images come over one line, and Prometheus is the longest of them. */
const TIMEOUT_SECONDS = 900;

export class Charts extends pulumi.ComponentResource {
  /** What is made of their own kinds depends on them: monitors, scaled objects, bindings. */
  readonly releases: Readonly<Partial<Record<ChartName, Release>>>;

  constructor(name: string, args: ChartsArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:Charts", name, {}, opts);

    this.releases = Object.fromEntries(
      args.charts.map((chart) => [chart.name, this.#install(`${name}-${chart.name}`, chart, args)]),
    );
    this.registerOutputs({});
  }

  #install(name: string, plan: ChartPlan, args: ChartsArgs): Release {
    const { context, inputs, clusterName, cluster, after } = args;
    const role =
      plan.role === null
        ? []
        : [new WorkloadRole(`${name}-role`, { context, plan: plan.role, clusterName }, { parent: this })];
    return new Release(
      name,
      {
        name: plan.release,
        chart: plan.chart,
        version: plan.version,
        repositoryOpts: { repo: plan.repository },
        namespace: plan.namespace,
        createNamespace: true,
        values: filledValues(plan, inputs),
        // One that does not come up is taken back, and the next `up` begins anew.
        atomic: true,
        skipAwait: false,
        waitForJobs: true,
        timeout: TIMEOUT_SECONDS,
      },
      // A pod is given its role when it starts.
      {
        parent: this,
        dependsOn: [...after, ...role],
        // Its disk goes while the driver is there that deletes it.
        ...(plan.hasDisk ? {} : { deletedWith: cluster }),
      },
    );
  }
}

/** What is known stays known at preview: a text waits for those values alone that it has a place for. */
function filledValues({ values }: ChartPlan, inputs: ChartsArgs["inputs"]): Record<string, unknown> {
  requireValues(values, inputs);
  const fill = (text: string) => {
    const names = placeholderNames(text);
    if (names.length === 0) return text;
    // One input that is unknown would make the others unknown too.
    const used = Object.fromEntries(Object.entries(inputs).filter(([name]) => names.includes(name)));
    return pulumi.output(used).apply((known) => filledText(text, known));
  };
  return mapTexts(values, fill) as Record<string, unknown>;
}
