/** Random stack files over the catalogue: some that can be planned, most with a mistake or two, some with many. */
import fc from "fast-check";
import { GPU_NAMES } from "../../../../infra/plan/catalogue/gpus.ts";
import { LANGUAGE_MODELS } from "../../../../infra/plan/catalogue/language-models.ts";
import { machineTypes } from "../../../../infra/plan/catalogue/machines.ts";
import { RELEASE_TAGS } from "../../../../infra/plan/catalogue/releases.ts";
import { DTYPES, FLAVOURS, QUANTIZATIONS, RECIPES } from "../../../../infra/plan/catalogue/types.ts";
import { customModel, customVision } from "../checks/stacks.ts";

export type StackValues = Record<string, unknown>;

/** Credential of every generated stack file that has one. */
export const HUB_TOKEN = "hf_TokenOfTheStackFile";

/** Row that every generated stack file adds to the catalogue. */
const OWN_MODEL = "own-model";

const INSTANCE_TYPES = Object.keys(machineTypes);

/** A key that is left out five times of six: the catalogue's values must do. */
function seldom<T>(values: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> {
  return fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: values });
}

/** One of the first values nearly always. */
function mostly<T>(usual: readonly T[], rare: readonly T[]): fc.Arbitrary<T> {
  return fc.oneof(
    { weight: 19, arbitrary: fc.constantFrom(...usual) },
    { weight: 1, arbitrary: fc.constantFrom(...rare) },
  );
}

const limits = fc.record({
  maxBatchSize: seldom(fc.constantFrom(1, 2, 3, 4, 8, 64)),
  maxInputTokens: seldom(fc.constantFrom(16, 512, 576, 577, 924, 1024, 2048, 7500)),
  maxOutputTokens: seldom(fc.constantFrom(1, 100, 512, 2048)),
  maxBeamWidth: seldom(mostly([1], [4])),
  maxImagesPerRequest: seldom(fc.constantFrom(0, 1, 2, 4)),
  maxNumTokens: seldom(fc.constantFrom(256, 4096, 8192)),
});

const triton = fc.record({
  backend: seldom(mostly(["tensorrtllm"], ["python"])),
  maxBatchSize: seldom(fc.constantFrom(1, 4, 8)),
  instanceCount: seldom(fc.constantFrom(1, 4)),
  streaming: seldom(fc.boolean()),
  accumulateTokens: seldom(fc.boolean()),
  kvCacheReuse: seldom(fc.boolean()),
  chunkedContext: seldom(fc.boolean()),
  kvCacheFreeGpuMemoryFraction: seldom(fc.constantFrom(0.2, 0.5, 0.6, 0.9)),
  maxTokensInPagedKvCache: seldom(fc.constantFrom(1024, 2560, 65_536)),
});

const ownWeights = [
  fc.record({ from: fc.constant("folder"), path: fc.constant("/data/weights"), revision: fc.constant("v1") }),
  fc.record({ from: fc.constant("modelscope"), revision: fc.constant("master") }),
  fc.record({
    from: fc.constant("hub"),
    revision: seldom(fc.constant("0123456789abcdef0123456789abcdef01234567")),
  }),
];
const bucketWeights = fc.record({
  from: fc.constant("s3"),
  uri: fc.constant("s3://bucket/weights"),
  revision: fc.constant("v1"),
});

/** @param hasBuckets - Whether builds of the platform read weights in buckets. */
function models(pools: readonly string[], hasBuckets: boolean): fc.Arbitrary<readonly StackValues[]> {
  const weights: fc.Arbitrary<object> = hasBuckets
    ? fc.oneof(...ownWeights, bucketWeights)
    : fc.oneof(...ownWeights);
  const model = fc.record({
    model: mostly([...LANGUAGE_MODELS, OWN_MODEL], ["gpt2-medum"]),
    runtime: seldom(mostly(["engine"], ["llmapi"])),
    flavour: seldom(fc.constantFrom(...FLAVOURS)),
    dtype: seldom(fc.constantFrom(...DTYPES)),
    quantization: seldom(fc.constantFrom(...QUANTIZATIONS)),
    tensorParallel: seldom(mostly([1, 2, 4], [3, 8, 16])),
    pipelineParallel: seldom(mostly([1, 2], [3])),
    limits: seldom(limits),
    triton: seldom(triton),
    weights: seldom(weights),
    concurrentRequests: seldom(mostly([1, 2], [8])),
    replicas: seldom(fc.constantFrom(1, 2, 3)),
    pool: fc.constantFrom(...pools),
    buildPool: seldom(fc.constantFrom(...pools)),
    memoryFit: seldom(fc.constant({ accept: "measured on this very machine" })),
  });
  return fc
    .array(model, { minLength: 1, maxLength: 3 })
    .map((all) => all.map((one, index) => ({ name: `model-${index}`, ...one })));
}

const machine = fc.record({
  gpu: mostly<string | undefined>([...GPU_NAMES], [undefined]),
  gpus: fc.constantFrom(1, 2, 4, 8),
  vcpus: fc.constantFrom(8, 64),
  memoryGiB: fc.constantFrom(64, 512),
});

const sharing = fc.oneof(
  fc.constant({ mode: "none" }),
  fc.record({ mode: fc.constantFrom("timeSlicing", "mps"), replicas: fc.constantFrom(2, 4) }),
  fc.record({
    mode: fc.constant("mig"),
    profile: fc.constantFrom("1g.5gb", "3g.20gb", "3g.40gb", "7g.80gb"),
  }),
);

const instanceType = mostly(
  ["g5.12xlarge", "g6e.12xlarge", "g6e.4xlarge", "p4d.24xlarge", "p5.48xlarge", "g5.4xlarge"],
  [...INSTANCE_TYPES, "g5.5xlarge"],
);

const nodes = fc.record({ min: fc.constantFrom(0, 1), max: mostly([4, 8], [1]) });

const encoders = fc.oneof(
  fc.constant(undefined),
  fc.constant(false),
  fc.record({
    device: fc.constantFrom("cpu", "gpu"),
    precision: seldom(fc.constantFrom("fp32", "fp16", "int8")),
    pool: seldom(fc.constant("gpu")),
    replicas: seldom(fc.constantFrom(1, 2)),
  }),
);

const ownParts = {
  title: fc.constant(customModel.title),
  source: fc.constant(customModel.source),
  recipe: fc.constantFrom(...RECIPES),
  architecture: fc.constant(customModel.architecture),
  trainedContextTokens: fc.constant(customModel.trainedContextTokens),
  tokenizer: fc.constant(customModel.tokenizer),
  runtimes: seldom(fc.constantFrom(["llmapi"], ["engine", "llmapi"])),
};

const ownTextRow = fc.record({
  ...ownParts,
  limits: fc.constant(customModel.limits),
  golden: fc.constant(customModel.golden),
  flavours: seldom(fc.subarray([...FLAVOURS], { minLength: 1 })),
});

const ownVisionRow = fc.record({
  ...ownParts,
  vision: fc.record({
    modelType: fc.constantFrom("llava", "blip2", "vila", "llava_onevision", "mllama"),
    parameters: fc.constant(customVision.parameters),
    attention: fc.constantFrom("prompt", "cross"),
    tokensPerImage: fc.constantFrom(1, 64),
    maxImagesPerRequest: fc.constantFrom(1, 3),
  }),
  limits: mostly<object>([{ ...customModel.limits, maxImagesPerRequest: 1 }], [customModel.limits]),
  golden: mostly<object>([{ ...customModel.golden, image: "coffee" }], [customModel.golden]),
  flavours: mostly<string>(["multimodal"], FLAVOURS).map((flavour) => [flavour]),
});

const ownRow = fc.oneof(ownTextRow, ownVisionRow);

const shared = {
  release: mostly(["25.07", "25.06", "25.12", "25.05", "24.09", "24.04"], [...RELEASE_TAGS, "25.13"]),
  acceptUnverified: seldom(fc.boolean()),
  engines: mostly([{ whenFull: "stopServer" }], [{ whenFull: "fail" }]),
  encoders,
  hub: fc.constant({ token: HUB_TOKEN }),
  catalogue: ownRow.map((row) => ({ models: { [OWN_MODEL]: row } })),
};

const docker = fc.record({
  platform: fc.constant("docker"),
  ...shared,
  models: models(["host"], true),
  host: fc.oneof(fc.record({ instanceType }), fc.record({ machine })),
});

const CLUSTER_POOLS = ["gpu"] as const;

const kubernetes = fc.record({
  platform: fc.constant("kubernetes"),
  ...shared,
  models: models([...CLUSTER_POOLS], false),
  pools: fc.tuple(
    fc.oneof(
      fc.record({ name: fc.constant("gpu"), instanceType, nodes, sharing: seldom(sharing) }),
      fc.record({ name: fc.constant("gpu"), machine, nodes, sharing: seldom(sharing) }),
    ),
  ),
  engineStore: fc.constant({ sizeGiB: 2000 }),
});

const account = {
  platform: fc.constant("aws"),
  ...shared,
  account: fc.constant("111122223333"),
  region: mostly(["us-east-1"], ["eu-central-1"]),
  access: mostly([{ apiCidrs: ["203.0.113.7/32"] }], [{ apiCidrs: [] }, { apiCidrs: ["0.0.0.0/0"] }]),
};
const rented = { instanceType, nodes, capacity: seldom(fc.constantFrom("spot", "onDemand")) };

const eks = fc.record({
  ...account,
  compute: fc.constant("eks"),
  models: models(["gpu", "gpu", "gpu", "build"], true),
  pools: fc.tuple(
    fc.record({ name: fc.constant("gpu"), ...rented, sharing: seldom(sharing) }),
    fc.record({ name: fc.constant("build"), instanceType, nodes }),
    fc.record({ name: fc.constant("cpu"), instanceType: fc.constant("m7i.xlarge") }),
  ),
});

/** Its only machine shares GPUs only by the containers' given devices. */
const ec2 = fc.record({
  ...account,
  compute: fc.constant("ec2"),
  models: models(["host"], false),
  pools: mostly<object[]>(
    [[{ name: "host", instanceType: "g5.12xlarge" }], [{ name: "host", instanceType: "p4d.24xlarge" }]],
    [
      [
        { name: "host", instanceType: "g5.xlarge" },
        { name: "cpu", instanceType: "m7i.xlarge" },
      ],
    ],
  ),
});

/** Stack files that a person who knows the keys could write. */
export const stackValues: fc.Arbitrary<StackValues> = fc
  .oneof(docker, kubernetes, eks, ec2)
  .map((values) => withoutUndefined(values) as StackValues);

/** The same of a stack on one machine of AWS. */
export const ec2Values: fc.Arbitrary<StackValues> = ec2.map(
  (values) => withoutUndefined(values) as StackValues,
);

/** The same with values of any kind in a few places, as a person who does not know the keys could write. */
export const brokenStackValues: fc.Arbitrary<StackValues> = fc
  .tuple(
    stackValues,
    fc.array(fc.tuple(fc.nat(), fc.jsonValue({ maxDepth: 1 })), { minLength: 1, maxLength: 4 }),
  )
  .map(([values, changes]) => changes.reduce(withChange, values));

/** A copy with another value at one place, chosen by a number. */
export function withChange(values: StackValues, [seed, value]: readonly [number, unknown]): StackValues {
  const copy = structuredClone(values);
  const places = placesOf(copy);
  const place = places[seed % places.length];
  if (place !== undefined) (place.holder as Record<string, unknown>)[place.key] = value;
  return copy;
}

/** Every key of a tree but the platform. */
function placesOf(tree: object): readonly { readonly holder: object; readonly key: string }[] {
  return Object.entries(tree).flatMap(([key, inner]) => [
    ...(key === "platform" ? [] : [{ holder: tree, key }]),
    ...(typeof inner === "object" && inner !== null ? placesOf(inner) : []),
  ]);
}

function withoutUndefined(tree: unknown): unknown {
  if (Array.isArray(tree)) return tree.map(withoutUndefined);
  if (typeof tree !== "object" || tree === null) return tree;
  return Object.fromEntries(
    Object.entries(tree).flatMap(([key, value]) =>
      value === undefined ? [] : [[key, withoutUndefined(value)]],
    ),
  );
}
