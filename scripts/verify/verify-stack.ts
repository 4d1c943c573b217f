/** Runs all checks of a running stack: of each language model, and of the encoders. */
import { gpuSeries, tensorRtLlmSeries, tritonSeries } from "../../infra/plan/catalogue/metrics.ts";
import { ENCODERS } from "../../infra/plan/containers/servers.ts";
import { buildEstimate, startEstimate } from "../../infra/plan/cost/times.ts";
import { objectName } from "../../infra/plan/docker/host-objects.ts";
import type { Endpoints, TritonEndpoints } from "../../infra/plan/endpoints.ts";
import { servedEncoders } from "../../infra/plan/gateway-config.ts";
import type { ModelPlan } from "../../infra/plan/gpu-stack.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { Skipped } from "../ask/golden.ts";
import { asked } from "../ask/question.ts";
import { UserError } from "../errors.ts";
import { sampleManifest } from "../seed/samples.ts";
import {
  answerChecks,
  type Check,
  type CheckName,
  type CheckResult,
  checkMetricNames,
  ENCODER_CHECKS,
  type EncoderCheckName,
  type Level,
  MODEL_CHECKS,
  type ModelCheckName,
  runCheck,
} from "./check.ts";
import { encoderChecks } from "./encoders.ts";
import { type ContainerHost, measureBuild, measureStart } from "./times.ts";

export interface RunningStack {
  readonly name: string;
  readonly plan: StackPlan;
  readonly endpoints: Endpoints;
  /** API key for the gateway. */
  readonly apiKey: string | undefined;
  /** Null when its servers are processes of this machine. */
  readonly host: ContainerHost | null;
}

/** A server, its models, and the results of its checks. */
export type Verified =
  | {
      readonly kind: "model";
      /** Name in the stack. */
      readonly name: string;
      readonly results: readonly CheckResult<ModelCheckName>[];
    }
  | {
      readonly kind: "encoders";
      readonly name: "encoders";
      readonly results: readonly CheckResult<EncoderCheckName>[];
    };

/** Receives each result once it is known. */
export interface Progress {
  /** Name of a model in the stack, or `encoders`. */
  readonly subject: string;
  /** Title of the check. */
  readonly title: string;
  readonly result: CheckResult;
  readonly milliseconds: number;
}

/** Models of the encoders' Triton on every platform, in addition to clip_text and the towers of a GPU. */
const CPU_ENCODER_MODELS: readonly string[] = ["llava_ensemble", "text_encoder", "vision_encoder"];

/**
 * Runs one check after the other, so that none affects another's times.
 * @throws UserError for a model of the stack file that is not yet in the stack.
 */
export async function verifyStack(
  stack: RunningStack,
  onProgress: (progress: Progress) => void,
): Promise<readonly Verified[]> {
  const { plan, endpoints } = stack;
  const subjects = plan.models.map(({ name }) => ({ name, checks: modelChecks(stack, name) }));
  const verified: Verified[] = [];
  for (const { name, checks } of subjects)
    verified.push({ kind: "model", name, results: await runAll(name, checks, MODEL_CHECKS, onProgress) });
  if (endpoints.encoders !== null) {
    const [name, checks] = ["encoders", checksOfEncoders(stack, endpoints.encoders)] as const;
    verified.push({ kind: name, name, results: await runAll(name, checks, ENCODER_CHECKS, onProgress) });
  }
  return verified;
}

async function runAll<Name extends CheckName>(
  subject: string,
  checks: readonly Check<Name>[],
  titles: Readonly<Record<Name, string>>,
  onProgress: (progress: Progress) => void,
): Promise<CheckResult<Name>[]> {
  const results: CheckResult<Name>[] = [];
  for (const check of checks) {
    const started = performance.now();
    const result = await runCheck(check);
    onProgress({ subject, title: titles[check.name], result, milliseconds: performance.now() - started });
    results.push(result);
  }
  return results;
}

function modelChecks(stack: RunningStack, name: string): Check<ModelCheckName>[] {
  const { plan, endpoints, apiKey, host } = stack;
  const server = endpoints.models[name];
  if (server === undefined) {
    throw new UserError(
      `${name} is in the stack file and not yet in the stack; \`npx engine-room up\` adds it.`,
    );
  }
  const model = {
    name,
    ...asked(plan, name),
    server,
    gateway: endpoints.gateway,
    apiKey,
    whenUnreachable: `\`npx engine-room connect --stack ${stack.name}\` says how it is reached.`,
  };
  const { tier } = plan;
  const container = objectName(stack.name, name);
  const planned = tier === "gpu" ? plan.models.find((one) => one.name === name) : undefined;
  const expected = [
    ...tritonSeries([model.profile.tritonModel]),
    ...(planned === undefined
      ? []
      : [...tensorRtLlmSeries(planned.spec.serving, planned.spec.engine.release.tag), ...gpuSeries]),
  ];
  const estimate = planned === undefined ? null : startEstimate(planned.coldStart);
  return [
    ...answerChecks(model, tier),
    { name: "metrics", level: tier, run: () => checkMetricNames(server.metrics, expected) },
    ...(planned === undefined
      ? []
      : [{ name: "build" as const, level: tier, run: () => engineBuild(stack, container, planned) }]),
    { name: "start", level: tier, run: () => measureStart(host, container, estimate) },
  ];
}

async function engineBuild({ plan, host }: RunningStack, container: string, { spec, engine }: ModelPlan) {
  const pool = plan.tier === "gpu" ? plan.spec.pools.find(({ name }) => name === spec.buildPool) : undefined;
  if (engine === null || pool === undefined) throw new Skipped("noEngine");
  return measureBuild(host, container, engine, buildEstimate(spec.engine, pool).parts);
}

function checksOfEncoders(stack: RunningStack, server: TritonEndpoints): Check<EncoderCheckName>[] {
  const { plan, endpoints, apiKey, host } = stack;
  const gpuPlan = plan.tier === "gpu" ? plan.encoders : null;
  const level: Level = gpuPlan?.device ?? "cpu";
  const models = gpuPlan === null ? CPU_ENCODER_MODELS : gpuPlan.tritonModels.map(({ name }) => name);
  const served = servedEncoders(plan);
  const expected = [...tritonSeries(models), ...(level === "gpu" ? gpuSeries : [])];
  const container = objectName(stack.name, ENCODERS);
  return [
    ...encoderChecks(
      {
        ...{ http: server.http, gateway: endpoints.gateway, apiKey },
        precision: gpuPlan?.precision ?? "fp32",
        maxBatchSize: served?.maxBatchSize ?? 1,
        text: served?.modelName ?? "",
        hasClipText: models.includes("clip_text"),
        samples: sampleManifest().pictures,
      },
      level,
    ),
    { name: "metrics", level, run: () => checkMetricNames(server.metrics, expected) },
    ...(gpuPlan === null
      ? []
      : [{ name: "build" as const, level, run: () => measureBuild(host, container, gpuPlan, {}) }]),
    { name: "start", level, run: () => measureStart(host, container, null) },
  ];
}
