/** What is served: each model's id with what answers for it. */
import type { EncodersConfig, GatewayConfig, ModelConfig } from "./config.ts";
import { invalidRequest, modelNotFound } from "./errors.ts";
import type { PendingRequests } from "./pending.ts";
import { ChatTemplate } from "./text/chat-template.ts";
import { TritonClient, type TritonClientOptions } from "./triton/client.ts";
import { DocumentEncoder } from "./triton/document-encoder.ts";
import { TextEncoder } from "./triton/embeddings.ts";
import { TextModel } from "./triton/generate.ts";

/** A language model. */
export interface ServedTextModel {
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

/** Something behind the gateway that has to be ready for the gateway to be. */
export interface Upstream {
  readonly name: string;
  /** A reason when it is not ready; undefined when it is. */
  notReady(): Promise<string | undefined>;
}

function tritonUpstream(client: TritonClient, tritonModel: string): Upstream {
  return {
    name: client.name,
    notReady: async () => {
      const state = await client.readiness(tritonModel);
      return state.isReady ? undefined : state.reason;
    },
  };
}

/** All models by the ids that clients use. */
export class Catalogue {
  readonly upstreams: readonly Upstream[];
  /** Absent where there is no encoder. */
  readonly documentEncoder: DocumentEncoder | undefined;
  readonly #clients: readonly TritonClient[];
  readonly #textModels = new Map<string, ServedTextModel>();
  readonly #encoder: ServedEncoder | undefined;

  constructor(config: GatewayConfig, onError: TritonClientOptions["onError"], pending: PendingRequests) {
    const upstreams: Upstream[] = [];
    const clients: TritonClient[] = [];
    const { encoders } = config;
    if (encoders) {
      pending.add("encoders");
      const client = new TritonClient({ name: "encoders", origin: encoders.http, onError, pending });
      clients.push(client);
      const encoder = new TextEncoder(encoders, client);
      this.#encoder = { config: encoders, encoder };
      this.documentEncoder = new DocumentEncoder(encoders, client, encoder);
      const { textModel, visionModel, ensembleModel, imageDimension } = encoders;
      const models = imageDimension === undefined ? [textModel] : [textModel, visionModel, ensembleModel];
      for (const model of models) upstreams.push(tritonUpstream(client, model));
    }
    for (const model of config.models) {
      pending.add(model.name);
      const { name, http: origin, coldStartSeconds } = model;
      const client = new TritonClient({ name, origin, onError, pending, coldStartSeconds });
      clients.push(client);
      const { chatTemplate, bosToken, eosToken } = model;
      this.#textModels.set(model.name, {
        config: model,
        model: new TextModel(model, client),
        chatTemplate:
          chatTemplate === undefined ? undefined : new ChatTemplate(chatTemplate, bosToken, eosToken),
      });
      const { tritonModel, streamingModel } = model.profile;
      for (const name of new Set([tritonModel, streamingModel])) upstreams.push(tritonUpstream(client, name));
    }
    this.upstreams = upstreams;
    this.#clients = clients;
  }

  /** Ids of all models, the encoder's first. */
  get ids(): string[] {
    return [...(this.#encoder ? [this.#encoder.config.modelName] : []), ...this.#textModels.keys()];
  }

  /** Language models, in the order of the configuration. */
  get textModels(): ServedTextModel[] {
    return [...this.#textModels.values()];
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
    await Promise.all(this.#clients.map((client) => client.close()));
  }
}
