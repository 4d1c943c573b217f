/** The served models by their ids. */
import type { GatewayConfig, ModelConfig } from "./config.ts";
import { type ApiError, invalidRequest, modelNotFound } from "./errors.ts";
import { ChatTemplate } from "./openai/generation.ts";
import { TritonClient, type TritonClientOptions } from "./triton/client.ts";
import { DocumentEncoder } from "./triton/document-encoder.ts";
import { TextModel } from "./triton/generate.ts";

/** A language model. */
export interface ServedTextModel {
  readonly config: ModelConfig;
  readonly model: TextModel;
  /** Absent for a model that does not chat. */
  readonly chatTemplate: ChatTemplate | undefined;
}

/** All models by the ids that clients use. */
export class Catalogue {
  /** Absent without an encoder. */
  readonly documentEncoder: DocumentEncoder | undefined;
  /** Language models, in the order of the configuration. */
  readonly textModels: readonly ServedTextModel[];
  /** Ids of all models, the encoder's first. */
  readonly ids: readonly string[];
  readonly #clients: TritonClient[] = [];
  readonly #encoderId: string | undefined;

  constructor({ encoders, models }: GatewayConfig, onError: TritonClientOptions["onError"]) {
    const connect = (server: Omit<TritonClientOptions, "onError">): TritonClient => {
      const client = new TritonClient({ ...server, onError });
      this.#clients.push(client);
      return client;
    };
    if (encoders) {
      this.documentEncoder = new DocumentEncoder(
        encoders,
        connect({ name: "encoders", origin: encoders.http }),
      );
    }
    this.textModels = models.map((config) => {
      const { name, http, coldStartSeconds, chatTemplate } = config;
      return {
        config,
        model: new TextModel(config, connect({ name, origin: http, coldStartSeconds })),
        chatTemplate: chatTemplate === undefined ? undefined : new ChatTemplate(chatTemplate),
      };
    });
    this.#encoderId = encoders?.modelName;
    this.ids = [...(encoders ? [encoders.modelName] : []), ...models.map(({ name }) => name)];
  }

  /** @throws ApiError 404 for an unknown id, 400 for a model that makes vectors. */
  textModel(id: string): ServedTextModel {
    const served = this.textModels.find(({ config }) => config.name === id);
    if (served) return served;
    throw this.#notServed(id, "makes embeddings and no text; use it with /v1/embeddings.");
  }

  /** @throws ApiError 404 for an unknown id, 400 for a model that makes text. */
  encoder(id: string): DocumentEncoder {
    if (this.documentEncoder && id === this.#encoderId) return this.documentEncoder;
    throw this.#notServed(id, "makes text and no embeddings; use it with /v1/completions.");
  }

  #notServed(id: string, reason: string): ApiError {
    return this.ids.includes(id)
      ? invalidRequest(`${id} ${reason}`, "model", "unsupported_model")
      : modelNotFound(id, this.ids);
  }

  /** {@link TritonClient.pending} by the names of the clients. */
  get pendingRequests(): ReadonlyMap<string, number> {
    return new Map(this.#clients.map(({ name, pending }) => [name, pending]));
  }

  /** Closes the connections to every Triton. */
  async close(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.close()));
  }
}
