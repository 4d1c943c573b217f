/** Helpers of the gateway's tests: gateways on free ports, ports where nothing listens, and a peer that stays silent. */
import { createHash } from "node:crypto";
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from "node:net";
import type { GatewayConfigInput } from "../../../containers/services/gateway/src/config.ts";
import { parseConfig } from "../../../containers/services/gateway/src/config-file.ts";
import { createServer, type GatewayServer } from "../../../containers/services/gateway/src/server.ts";

export const CHATML =
  "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}" +
  "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/** Configuration of one encoder and one language model at the given ports of this machine. */
export function configOf(
  ports: { encoders: number; model: number },
  more: Partial<GatewayConfigInput> = {},
): GatewayConfigInput {
  return {
    port: 0,
    encoders: {
      http: `http://127.0.0.1:${ports.encoders}`,
      modelName: "all-MiniLM-L6-v2",
      dimension: 384,
      imageDimension: 512,
      maxBatchSize: 64,
    },
    models: [
      {
        name: "smollm2",
        http: `http://127.0.0.1:${ports.model}`,
        chatTemplate: CHATML,
        stopWords: ["<|im_end|>"],
        maxTokens: 1024,
        contextTokens: 2048,
      },
      { name: "base-model", http: `http://127.0.0.1:${ports.model}` },
    ],
    log: { level: "silent" },
    ...more,
  };
}

export interface RunningGateway extends GatewayServer {
  /** `http://127.0.0.1:PORT`. */
  readonly url: string;
  /** POSTs JSON, or a text unchanged. */
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>;
}

export async function startGateway(config: GatewayConfigInput): Promise<RunningGateway> {
  const server = await createServer(parseConfig(config));
  const url = await server.app.listen({ host: "127.0.0.1", port: 0 });
  return {
    ...server,
    url,
    post: (path, body, headers = {}) =>
      fetch(url + path, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
  };
}

/** Listens on a free port of this machine. */
export async function listenTcp(
  onConnection: (socket: Socket) => void,
): Promise<{ server: Server; port: number }> {
  const server = createTcpServer(onConnection);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, port: (server.address() as AddressInfo).port };
}

/** A host that accepts connections and never responds, like a machine that hangs. */
export interface SilentPeer {
  readonly port: number;
  /** Numbers of opened and closed connections. */
  readonly seen: { opened: number; closed: number };
  close(): Promise<void>;
}

export async function silentPeer(): Promise<SilentPeer> {
  const sockets = new Set<Socket>();
  const seen = { opened: 0, closed: 0 };
  const { server, port } = await listenTcp((socket) => {
    sockets.add(socket);
    seen.opened += 1;
    socket
      .on("error", () => undefined)
      .on("close", () => {
        sockets.delete(socket);
        seen.closed += 1;
      })
      .resume();
  });
  return {
    port,
    seen,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export function sha256(text: string | Uint8Array): string {
  return createHash("sha256").update(text).digest("hex");
}

export const CHAT = { model: "smollm2", messages: [{ role: "user", content: "Say hello." }] };

/** Status and error object of an answer in OpenAI's shape. @throws Error when it has another shape. */
export async function errorOf(
  response: Response,
): Promise<{ status: number; message: string; type: string; param: string | null; code: string | null }> {
  const mediaType = response.headers.get("content-type") ?? "none";
  if (!mediaType.startsWith("application/json")) throw new Error(`the error is not JSON but ${mediaType}`);
  const { error } = (await response.json()) as {
    error: { message: string; type: string; param: string | null; code: string | null };
  };
  return { status: response.status, ...error };
}
