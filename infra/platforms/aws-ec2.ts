/** `platform: aws`, `compute: ec2`: one machine, and on it the containers of `platform: docker`. */
import * as pulumi from "@pulumi/pulumi";
import { Edge } from "../../components/aws/edge.ts";
import { Instance } from "../../components/aws/instance.ts";
import { planInstanceImages } from "../image-inputs.ts";
import type { DeployedStack } from "../outputs.ts";
import { planOutputs } from "../plan-outputs.ts";
import { ec2Stack } from "../plan/aws/aws-stack.ts";
import { dockerStack } from "../plan/docker/docker-stack.ts";
import { SECRET_PATHS } from "../plan/docker/types.ts";
import type { Ec2Plan } from "../plan/gpu-stack.ts";
import { awsProvider, deployAccount, deployFileSystem } from "./aws-account.ts";
import { secretValues } from "./secret-values.ts";
import { unpulledImages } from "./unpulled-images.ts";

/**
 * Registers the resources of a stack on one EC2 instance.
 *
 * @throws ConfigError where an image has no digest. A preview shows such a stack all the same, and warns.
 */
export function deployEc2(plan: Ec2Plan): DeployedStack {
  const { images, problems } = planInstanceImages(plan);
  refuseUnpulled(problems);
  const name = pulumi.getStack();
  const host = dockerStack(plan, {
    stack: name,
    images: images.map((image) => ({ kind: "locked", ...image })),
  });
  const aws = ec2Stack(plan, name, host);
  const { context, instance, edge } = aws;
  const opts = { providers: { aws: awsProvider(context) } };

  const { network } = deployAccount(aws, opts);
}
