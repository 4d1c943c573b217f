/** The plan of a stack on GPUs: engines, repositories, encoders, fit, cost and cold start, put together. */
import type { AwsConfig, Ec2Config, EksConfig } from "../config/aws-stacks.ts";
import type { GpuStackConfig } from "../config/config.ts";
import type { Problem } from "../problems.ts";
import { ec2AsHost, eksAsCluster, eksCluster, withoutSecrets } from "./aws/as-platforms.ts";
import type { Release } from "./catalogue/types.ts";
import { findProblems } from "./checks/find-problems.ts";
import { stackCost } from "./cost/cost.ts";
import { coldStart, firstUp } from "./cost/times.ts";
import type { ColdStart, FirstUp, GpuCost } from "./cost/types.ts";
import { type DockerGpuHost, dockerGpuHost } from "./docker/host.ts";
import { encoderPlan } from "./encoders/encoder-plan.ts";
import type { EncoderPlan } from "./encoders/types.ts";
import { enginePlan } from "./engine/engine-plan.ts";
import type { EnginePlan } from "./engine/types.ts";
import { kvCacheFractions } from "./fit/kv-cache.ts";
import { memoryFit } from "./fit/memory-fit.ts";
import type { MemoryFit } from "./fit/types.ts";
import { type Cluster, kubernetesCluster } from "./kubernetes/cluster.ts";
import type { RepositoryPlan } from "./repository/flavours.ts";
import { repositoryPlan } from "./repository/repository-plan.ts";
import { requestProfile } from "./requests/request-profile.ts";
import { resolveStack } from "./resolve-stack.ts";
import type { GpuStackSpec, ModelSpec } from "./spec.ts";

/** One served model. */
export interface ModelPlan {
  /** Name in the stack. */
  readonly name: string;
  readonly spec: ModelSpec;
  /** null where the model runs without an engine. */
  readonly engine: EnginePlan | null;
  readonly repository: RepositoryPlan;
  /** How clients ask it. */
  readonly request: ReturnType<typeof requestProfile>;
  readonly coldStart: ColdStart;
}

type ClusterGateway = Extract<GpuStackConfig, { platform: "kubernetes" }>["gateway"];

interface GpuPlanParts {
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

/** On a Docker host that is there. */
interface OwnHostPlan extends GpuPlanParts {
  readonly platform: "docker";
  readonly host: DockerGpuHost;
}

/** On one machine of AWS, which is a Docker host. */
export interface Ec2Plan extends GpuPlanParts {
  readonly platform: "aws";
  readonly compute: "ec2";
  readonly host: DockerGpuHost;
  readonly config: Ec2Config;
}

/** In a cluster that is there. */
interface OwnClusterPlan extends GpuPlanParts {
  readonly platform: "kubernetes";
  readonly cluster: Cluster;
  readonly gateway: ClusterGateway;
}

/** In a cluster of AWS. */
export interface EksPlan extends GpuPlanParts {
  readonly platform: "aws";
  readonly compute: "eks";
  readonly cluster: Cluster;
  readonly gateway: ClusterGateway;
  readonly config: EksConfig;
}

export type DockerGpuPlan = OwnHostPlan | Ec2Plan;
export type ClusterGpuPlan = OwnClusterPlan | EksPlan;
export type AwsPlan = EksPlan | Ec2Plan;
export type GpuPlan = DockerGpuPlan | ClusterGpuPlan;

interface GpuPlanResult {
  readonly plan: GpuPlan | null;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

/**
 * Plans a stack on GPUs. Nothing is planned while there is a problem, so that no function below meets a combination
 * that can't be built.
 *
 * @param written - The stack file without the defaults of its schema.
 */
export function planGpuStack(
  config: GpuStackConfig,
  written: Readonly<Record<string, unknown>> = config,
): GpuPlanResult {
  const { spec, problems: unresolved } = resolveStack(config);
  const fit = memoryFit(spec);
  const { problems, warnings } = findProblems({ config, written, spec, fit }, unresolved);
  if (problems.length > 0) return { plan: null, problems, warnings };
  return { plan: planResolved(config, spec, fit), problems, warnings };
}

function planResolved(config: GpuStackConfig, spec: GpuStackSpec, fit: readonly MemoryFit[]): GpuPlan {
  const fractions = kvCacheFractions(spec, fit);
  const models = spec.models.map((model) => planModel(model, spec, fractions));
  const cost = stackCost(
    spec,
    models.flatMap(({ spec: model, engine }) => (engine === null ? [] : [{ model, engine }])),
  );
  const parts: GpuPlanParts = {
    tier: "gpu",
    release: spec.release,
    spec,
    models,
    encoders: planEncoders(spec),
    fit,
    cost,
    firstUp: firstUp(spec, models, cost.builds),
    gateway: config.gateway,
  };
  switch (config.platform) {
    case "docker":
      return { ...parts, platform: config.platform, host: dockerGpuHost(config) };
    case "kubernetes":
      return {
        ...parts,
        platform: config.platform,
        cluster: kubernetesCluster(config),
        gateway: config.gateway,
      };
    case "aws":
      return awsPlan(config, parts);
  }
}

function awsPlan(wanted: AwsConfig, parts: GpuPlanParts): AwsPlan {
  const config = withoutSecrets(wanted);
  if (config.compute === "ec2") {
    const host = ec2AsHost(config);
    return {
      ...parts,
      gateway: host.gateway,
      platform: "aws",
      compute: "ec2",
      host: dockerGpuHost(host),
      config,
    };
  }
  return {
    ...parts,
    gateway: eksAsCluster(config).gateway,
    platform: "aws",
    compute: "eks",
    cluster: eksCluster(config),
    config,
  };
}

function planModel(
  model: ModelSpec,
  stack: GpuStackSpec,
  fractions: Readonly<Record<string, number>>,
): ModelPlan {
  const { name, runtime } = model.serving;
  const engine = runtime === "engine" ? enginePlan(model.engine) : null;
  const kvCacheFreeGpuMemoryFraction = fractions[name];
  if (kvCacheFreeGpuMemoryFraction === undefined) throw new Error(`No KV cache fraction for ${name}`);
  const repository = repositoryPlan(model, engine, kvCacheFreeGpuMemoryFraction);
  return {
    name,
    spec: model,
    engine,
    repository,
    request: requestProfile(model, repository),
    coldStart: coldStart(model, stack, engine),
  };
}

function planEncoders(stack: GpuStackSpec): EncoderPlan | null {
  const { encoders, pools, release } = stack;
  if (encoders === null) return null;
  const pool = pools.find(({ name }) => name === encoders.pool);
  if (encoders.device === "cpu" || pool === undefined) return encoderPlan(encoders, release, null);
  const { gpu, sharing } = pool;
  return encoderPlan(encoders, release, gpu, sharing.mode === "mig" ? sharing.profile : undefined);
}
