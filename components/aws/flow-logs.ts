/** Who connected to whom in a VPC, into CloudWatch. Cost: 0.5 USD a GB of logs (us-east-1). */
import { LogGroup } from "@pulumi/aws/cloudwatch/logGroup.js";
import { FlowLog } from "@pulumi/aws/ec2/flowLog.js";
import * as pulumi from "@pulumi/pulumi";
import type { AwsContext, NetworkPlan } from "../../infra/plan/aws/types.ts";
import { namedTags } from "./tags.ts";
import { WorkloadRole } from "./workload-role.ts";

interface FlowLogsArgs {
  readonly context: AwsContext;
  readonly plan: NonNullable<Extract<NetworkPlan, { kind: "create" }>["flowLogs"]>;
  readonly vpcId: pulumi.Input<string>;
}

export class FlowLogs extends pulumi.ComponentResource {
  constructor(name: string, args: FlowLogsArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:FlowLogs", name, {}, opts);

    const { context, plan } = args;
    const group = this.#createGroup(name, args);
    const writer = new WorkloadRole(`${name}-writer`, { context, plan: plan.role }, { parent: this });
    this.#createLog(name, args, { group, writer });
    this.registerOutputs({});
  }

  #createGroup(name: string, { context, plan }: FlowLogsArgs): LogGroup {
    return new LogGroup(
      `${name}-group`,
      {
        name: plan.logGroup,
        retentionInDays: plan.retentionDays,
        tags: namedTags(context, "flow-logs"),
      },
      { parent: this },
    );
  }

  #createLog(
    name: string,
    { context, vpcId }: FlowLogsArgs,
    { group, writer }: { readonly group: LogGroup; readonly writer: WorkloadRole },
  ): void {
    new FlowLog(
      `${name}-log`,
      {
        vpcId,
        trafficType: "ALL",
        logDestinationType: "cloud-watch-logs",
        logDestination: group.arn,
        iamRoleArn: writer.arn,
        tags: namedTags(context, "flow-log"),
      },
      { parent: this, dependsOn: [writer] },
    );
  }
}
