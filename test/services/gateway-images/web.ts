/** Servers of pictures on this machine, and a network in which names lead to them. */
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { Network } from "../../../containers/services/gateway/src/images/fetch-image.ts";
import type { Certificate } from "../../harness/certificate.ts";

export interface Site {
  readonly port: number;
  /** Received requests, in order. */
  readonly requests: IncomingMessage[];
  /** Connections that are open. */
  connections(): number;
  close(): Promise<void>;
}

export interface SiteOptions {
  readonly address?: string;
  readonly port?: number;
  /** Present: the site speaks https. */
  readonly certificate?: Certificate;
}

/** Starts a site, by default on a free port of 127.0.0.1. */
export async function startSite(answer: RequestListener, options: SiteOptions = {}): Promise<Site> {
  const { address = "127.0.0.1", port = 0, certificate } = options;
  const requests: IncomingMessage[] = [];
  const listener: RequestListener = (request, response) => {
    requests.push(request);
    answer(request, response);
  };
  const server: Server = certificate
    ? createTlsServer({ cert: certificate.cert, key: certificate.key }, listener)
    : createServer(listener);
  let open = 0;
  server.on("connection", (socket) => {
    open += 1;
    socket
      .on("error", () => undefined)
      .on("close", () => {
        open -= 1;
      });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(port, address, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    connections: () => open,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/** A network that resolves every name to 127.0.0.1, and allows no other address. */
export function networkOf(more: Partial<Network> = {}): Network {
  return {
    resolve: async () => [{ address: "127.0.0.1", family: 4 }],
    mayConnect: (address) => address === "127.0.0.1",
    ...more,
  };
}
