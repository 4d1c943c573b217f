/** What is served: each model's id with what answers for it. */
import type { EncodersConfig, GatewayConfig, ModelConfig } from "./config.ts";
import { invalidRequest, modelNotFound } from "./errors.ts";
import { ChatTemplate } from "./text/chat-template.ts";
import { TritonClient, type TritonClientOptions } from "./triton/client.ts";
import { TextEncoder } from "./triton/embeddings.ts";
import { TextModel } from "./triton/generate.ts";

/** A language model. */
interface ServedTextModel {
  readonly config: ModelConfig;
  readonly model: TextModel;
  /** Absent where the model has none, and then does not chat. */
  readonly chatTemplate: ChatTemplate | undefined;
}

/** The text encoder. */
interface ServedEncoder {
  readonly config: EncodersConfig;
  readonly encoder: TextEncoder;
}

/** A Triton model that has to be ready for the gateway to be. */
interface Upstream {
  readonly client: TritonClient;
  readonly tritonModel: string;
}

/** All models by the ids that clients use. */
export class Catalogue {
  readonly upstreams: readonly Upstream[];
  readonly #textModels = new Map<string, ServedTextModel>();
  readonly #encoder: ServedEncoder | undefined;

  constructor(config: GatewayConfig, onError: TritonClientOptions["onError"]) {
    const upstreams: Upstream[] = [];
    if (config.encoders) {
      const client = new TritonClient({ name: "encoders", origin: config.encoders.http, onError });
      this.#encoder = { config: config.encoders, encoder: new TextEncoder(config.encoders, client) };
      upstreams.push({ client, tritonModel: config.encoders.textModel });
    }
    for (const model of config.models) {
      const client = new TritonClient({ name: model.name, origin: model.http, onError });
      const { chatTemplate, bosToken, eosToken } = model;
      this.#textModels.set(model.name, {
        config: model,
        model: new TextModel(model, client),
        chatTemplate:
          chatTemplate === undefined ? undefined : new ChatTemplate(chatTemplate, bosToken, eosToken),
      });
      const { tritonModel, streamingModel } = model.profile;
      for (const name of new Set([tritonModel, streamingModel]))
        upstreams.push({ client, tritonModel: name });
    }
    this.upstreams = upstreams;
  }

  /** Ids of all models, the encoder's first. */
  get ids(): string[] {
    return [...(this.#encoder ? [this.#encoder.config.modelName] : []), ...this.#textModels.keys()];
  }

  /** @throws ApiError 404 for an unknown id, 400 for a model that makes vectors. */
  textModel(id: string): ServedTextModel {
    const served = this.#textModels.get(id);
    if (served) return served;
    throw this.ids.includes(id)
      ? invalidRequest(
          `${id} makes embeddings and no text; use it with /v1/embeddings.`,
          "model",
          "unsupported_model",
        )
      : modelNotFound(id, this.ids);
  }

  /** @throws ApiError 404 for an unknown id, 400 for a model that makes text. */
  encoder(id: string): ServedEncoder {
    if (this.#encoder?.config.modelName === id) return this.#encoder;
    throw this.#textModels.has(id)
      ? invalidRequest(
          `${id} makes text and no embeddings; use it with /v1/completions.`,
          "model",
          "unsupported_model",
        )
      : modelNotFound(id, this.ids);
  }

  /** Closes the connections to every Triton. */
  async close(): Promise<void> {
    await Promise.all(this.upstreams.map(({ client }) => client.close()));
  }
}
