/** Stack files without problems, and a way to write others as changes of them. */
type Values = Readonly<Record<string, unknown>>;

/** One text model on one GPU of a Docker host. */
export const dockerValues = {
  platform: "docker",
  models: [{ name: "gpt", model: "gpt2-medium" }],
  host: { instanceType: "g5.4xlarge" },
  engines: { whenFull: "stopServer" },
};

/** The same in a cluster of machines with four GPUs. */
export const clusterValues = {
  platform: "kubernetes",
  models: [{ name: "gpt", model: "gpt2-medium" }],
  pools: [{ name: "gpu", instanceType: "g5.12xlarge", nodes: { min: 1, max: 2 } }],
};

export const awsValues = {
  ...clusterValues,
  platform: "aws",
  account: "111122223333",
  region: "us-east-1",
  access: { apiCidrs: ["203.0.113.7/32"] },
};

/** A Docker stack with one model that differs. */
export function dockerModel(model: Values, rest: Values = {}): Values {
  return { ...dockerValues, models: [{ ...dockerValues.models[0], ...model }], ...rest };
}

/** A cluster with one model that differs, and with a pool that does. */
export function clusterModel(model: Values, pool: Values = {}, rest: Values = {}): Values {
  return {
    ...clusterValues,
    models: [{ ...clusterValues.models[0], ...model }],
    pools: [{ ...clusterValues.pools[0], ...pool }],
    ...rest,
  };
}

/** A row for `catalogue.models`, as small as gpt2-medium. */
export const customModel = {
  title: "A text model",
  source: { repository: "org/model", revision: "0".repeat(40), license: "MIT", downloadGB: 1.5 },
  recipe: "gpt",
  architecture: {
    parameters: 354_823_168,
    embeddingParameters: 52_511_744,
    layers: 24,
    heads: 16,
    kvHeads: 16,
    headDimension: 64,
    hiddenSize: 1024,
    vocabularySize: 50_257,
  },
  trainedContextTokens: 1024,
  limits: { maxBatchSize: 4, maxInputTokens: 512, maxOutputTokens: 512 },
  tokenizer: { endId: 50_256, padId: 50_256 },
  golden: { prompt: "Hello", answerContains: ["world"] },
};

export const customVision = {
  modelType: "llava",
  parameters: 324_487_168,
  attention: "prompt",
  tokensPerImage: 64,
};

/** A Docker stack whose model is a row of its own. */
export function dockerCustom(row: Values, name = "own", model: Values = {}): Values {
  return dockerModel(
    { model: name, ...model },
    { catalogue: { models: { [name]: { ...customModel, ...row } } } },
  );
}
