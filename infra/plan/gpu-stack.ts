/** Plans of stacks on GPUs: what every platform has, and the part of each platform. */
import type { Ec2Config, EksConfig } from "../config/aws-stacks.ts";
import type { GpuStackConfig } from "../config/config.ts";
import type { Release } from "./catalogue/types.ts";
import type { EnginePlan } from "./container-spec-schemas.ts";
import type { ColdStart, FirstUp, GpuCost } from "./cost/types.ts";
import type { DockerGpuHost } from "./docker/host.ts";
import type { EncoderPlan } from "./encoders/encoder-plan.ts";
import type { MemoryFit } from "./fit/memory-fit.ts";
import type { Cluster } from "./kubernetes/cluster.ts";
import type { RepositoryPlan } from "./repository/repository-plan.ts";
import type { requestProfile } from "./requests/request-profile.ts";
import type { GpuStackSpec, ModelSpec } from "./spec.ts";

/** One served model. */
export interface ModelPlan {
  /** Name in the stack. */
  readonly name: string;
  readonly spec: ModelSpec;
  /** null if the model runs without an engine. */
  readonly engine: EnginePlan | null;
  readonly repository: RepositoryPlan;
  /** How clients ask it. */
  readonly request: ReturnType<typeof requestProfile>;
  readonly coldStart: ColdStart;
}

/** Parts that every platform has. */
export interface GpuPlanParts {
  readonly tier: "gpu";
  readonly release: Release;
  readonly spec: GpuStackSpec;
  readonly models: readonly ModelPlan[];
  readonly encoders: EncoderPlan | null;
  readonly fit: readonly MemoryFit[];
  readonly cost: GpuCost;
  readonly firstUp: FirstUp;
  readonly gateway: GpuStackConfig["gateway"];
}

/** On a Docker host. */
interface OnHost extends GpuPlanParts {
  readonly host: DockerGpuHost;
}

/** In a cluster. */
interface InCluster extends GpuPlanParts {
  readonly cluster: Cluster;
  readonly gateway: Extract<GpuStackConfig, { platform: "kubernetes" }>["gateway"];
}

export interface Ec2Plan extends OnHost {
  readonly platform: "aws";
  readonly compute: "ec2";
  readonly config: Ec2Config;
}

export interface EksPlan extends InCluster {
  readonly platform: "aws";
  readonly compute: "eks";
  readonly config: EksConfig;
}

export type DockerGpuPlan = (OnHost & { readonly platform: "docker" }) | Ec2Plan;
/** A platform that makes the cluster adds its own part beside its other code. */
export type ClusterGpuPlan =
  | (InCluster & { readonly platform: Exclude<GpuStackConfig["platform"], "docker" | "aws"> })
  | EksPlan;
export type AwsPlan = EksPlan | Ec2Plan;
export type GpuPlan = DockerGpuPlan | ClusterGpuPlan;
