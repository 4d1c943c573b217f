/** How registries are asked, request by request, and what faults come to; docker-registry.test.ts asks a real one. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  type Credential,
  type CredentialSource,
  dockerCredentials,
} from "../../../scripts/images/docker-credentials.ts";
import { askRegistry } from "../../../scripts/images/registry.ts";

const DIGEST = `sha256:${"a".repeat(64)}`;
const PATH = `/v2/room/trtllm/manifests/${DIGEST}`;

interface Registry {
  readonly host: string;
  /** Method, path and authorization of each request, in order. */
  readonly requests: readonly string[];
  close(): Promise<void>;
}

async function registry(
  answer: (request: IncomingMessage, response: ServerResponse, origin: string) => unknown,
): Promise<Registry> {
  const requests: string[] = [];
  const server = createServer(async (request, response) => {
    requests.push(`${request.method} ${request.url} ${request.headers.authorization ?? "-"}`);
    await answer(request, response, `http://${request.headers.host}`);
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

const nobody: CredentialSource = async () => null;
const somebody: CredentialSource = async () => ({ kind: "password", user: "me", password: "secret" });
const BASIC = `Basic ${Buffer.from("me:secret").toString("base64")}`;

describe("a registry", () => {
  let running: Registry | undefined;
  afterEach(() => running?.close());

  async function ask(
    answer: Parameters<typeof registry>[0],
    credentials: CredentialSource = nobody,
    reference = `room/trtllm:25.07@${DIGEST}`,
  ) {
    running = await registry(answer);
    return askRegistry(credentials)(`${running.host}/${reference}`);
  }

  test("of which everybody may read is asked with one HEAD, of the digest", async () => {
    const accepted = vi.fn();
    const answer = await ask((request) => accepted(request.headers.accept));
    expect(answer).toEqual({ kind: "there" });
    expect(running?.requests).toEqual([`HEAD ${PATH} -`]);
    expect(accepted).toHaveBeenCalledWith(expect.stringContaining("application/vnd.oci.image.index.v1+json"));
  });

  test("is asked by the tag where there is no digest", async () => {
    await ask(() => undefined, nobody, "room/trtllm:25.07-abc");
    expect(running?.requests).toEqual(["HEAD /v2/room/trtllm/manifests/25.07-abc -"]);
  });

  /** Gives a token to `me`, and to strangers one with which nothing is shown. */
  const withTokens =
    (seen: (body: string) => void = () => {}) =>
    async (request: IncomingMessage, response: ServerResponse, origin: string) => {
      const { authorization } = request.headers;
      if (request.url?.startsWith("/token")) {
        const body = await text(request);
        seen(body);
        const isKnown = authorization === BASIC || body.includes("refresh_token=mine");
        response.write(JSON.stringify(isKnown ? { token: "known" } : { access_token: "stranger" }));
      } else if (authorization === undefined)
        response.writeHead(401, {
          "www-authenticate": `Bearer realm="${origin}/token",service="room",scope="repository:room/trtllm:pull"`,
        });
      else response.writeHead(authorization === "Bearer known" ? 200 : 403);
    };

  test("with a server of tokens", async () => {
    expect(await ask(withTokens(), somebody)).toEqual({ kind: "there" });
    expect(running?.requests).toEqual([
      `HEAD ${PATH} -`,
      `GET /token?service=room&scope=repository%3Aroom%2Ftrtllm%3Apull ${BASIC}`,
      `HEAD ${PATH} Bearer known`,
    ]);
  });

  test("with a server of tokens, and a refresh token", async () => {
    const bodies: string[] = [];
    const refresh: CredentialSource = async () => ({ kind: "identityToken", token: "mine" });
    expect(
      await ask(
        withTokens((body) => bodies.push(body)),
        refresh,
      ),
    ).toEqual({ kind: "there" });
    expect(Object.fromEntries(new URLSearchParams(bodies[0]))).toEqual({
      grant_type: "refresh_token",
      client_id: "engine-room",
      refresh_token: "mine",
      scope: "repository:room/trtllm:pull",
      service: "room",
    });
  });

  test.each([
    ["too many questions", (response: ServerResponse) => response.writeHead(429), /status 429/],
    [
      "no address for tokens",
      (response: ServerResponse) => response.writeHead(401, { "www-authenticate": 'Bearer service="room"' }),
      /Invalid URL/,
    ],
    ["an end in the middle", (response: ServerResponse) => response.destroy(), /fetch failed/],
  ])("that answers with %s is silent", async (_, answer, words) => {
    expect(await ask((__, response) => answer(response))).toEqual({
      kind: "silent",
      words: expect.stringMatching(words),
    });
  });

  test("where nobody listens is silent", async () => {
    const closed = await registry(() => undefined);
    await closed.close();
    expect(await askRegistry(nobody)(`${closed.host}/room/trtllm@${DIGEST}`)).toMatchObject({
      kind: "silent",
    });
  });
});

describe("Docker's configuration", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-docker-"));
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });

  /** A helper that knows one registry, and gives what it was asked for as the user. */
  function withHelper(answer: string): void {
    const file = join(folder, "docker-credential-vault");
    writeFileSync(
      file,
      `#!/bin/sh\nread -r asked\n[ "$1 $asked" = "get known.example.org" ] || exit 1\necho '${answer}'\n`,
    );
    chmodSync(file, 0o755);
    vi.stubEnv("PATH", `${folder}${delimiter}${process.env.PATH}`);
  }
  const credentials = (config: object | string) => {
    writeFileSync(join(folder, "config.json"), typeof config === "string" ? config : JSON.stringify(config));
    return dockerCredentials(folder);
  };
  const password: Credential = { kind: "password", user: "me", password: "a:b" };
  const auth = Buffer.from("me:a:b").toString("base64");

  test.each([
    ["a password", { auths: { "known.example.org": { auth } } }, password],
    [
      "a refresh token",
      { auths: { "known.example.org": { auth, identitytoken: "mine" } } },
      { kind: "identityToken", token: "mine" },
    ],
    ["another registry", { auths: { "other.example.org": { auth } } }, null],
    // Left by a login to a store of credentials.
    ["an empty entry", { auths: { "known.example.org": {} } }, null],
    ["nothing that could be read", "{", null],
    ["a helper that would be a path", { credsStore: "../../bin/sh" }, null],
    [
      "a helper that is not there, and a password",
      { credsStore: "gone", auths: { "known.example.org": { auth } } },
      password,
    ],
  ] as const)("with %s", async (_, config, expected) => {
    expect(await credentials(config)("known.example.org")).toEqual(expected);
  });

  test.each([
    ['{"Username":"me","Secret":"a:b"}', password],
    ['{"Username":"<token>","Secret":"mine"}', { kind: "identityToken", token: "mine" }],
    ["no JSON", null],
  ] as const)("with a helper that gives %s", async (answer, expected) => {
    withHelper(answer);
    expect(await credentials({ credHelpers: { "known.example.org": "vault" } })("known.example.org")).toEqual(
      expected,
    );
    expect(await credentials({ credsStore: "vault" })("known.example.org")).toEqual(expected);
    expect(await credentials({ credsStore: "vault" })("other.example.org")).toBeNull();
  });

  test("without a file", async () => {
    expect(await dockerCredentials(join(folder, "none"))("known.example.org")).toBeNull();
  });
});
