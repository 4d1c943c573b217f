/** What Docker's own registry answers: open, with passwords, and with tokens of a server that this test stands in for. */
import { type ChildProcess, spawn } from "node:child_process";
import { createHash, randomUUID, sign } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { dyingWithUs } from "../../../components/local/provider/commands.ts";
import type { CredentialSource } from "../../../scripts/images/docker-credentials.ts";
import { askRegistry } from "../../../scripts/images/registry.ts";
import { certificateFor } from "../../harness/certificate.ts";
import { debianProgram } from "../../harness/debian-program.ts";
import { freePorts } from "../../harness/docker/ports.ts";

const registry = await debianProgram("docker-registry");
const missing = "reason" in registry ? ` (skipped: ${registry.reason})` : "";

const START_TIMEOUT_MILLISECONDS = 60_000;
const REPOSITORY = "room/trtllm";
const OTHER_DIGEST = `sha256:${"a".repeat(64)}`;
const MANIFEST = "application/vnd.oci.image.manifest.v1+json";
const INDEX = "application/vnd.oci.image.index.v1+json";
/** bcrypt of the password below. */
const HTPASSWD = "me:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";
const BASIC = `Basic ${Buffer.from("me:secret").toString("base64")}`;

const nobody: CredentialSource = async () => null;
const me: CredentialSource = async () => ({ kind: "password", user: "me", password: "secret" });
const wrong: CredentialSource = async () => ({ kind: "password", user: "me", password: "secrets" });

const digestOf = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`;

describe.skipIf(missing !== "")(`a registry of Docker's${missing}`, () => {
  let folder: string;
  let tokens: Server;
  const processes: ChildProcess[] = [];
  /** Host and port, by what they ask for; all have the same images. */
  const hosts: Record<"nothing" | "passwords" | "tokens", string> = {
    nothing: "",
    passwords: "",
    tokens: "",
  };
  const image = { config: "{}", manifest: "", index: "" };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-registry-"));
    const ports = await freePorts(3);
    const { key, cert } = certificateFor("tokens.example.org");
    writeFileSync(join(folder, "certificate"), cert);
    writeFileSync(join(folder, "htpasswd"), HTPASSWD);
    tokens = tokenServer(key, cert);
    await new Promise<void>((resolve) => tokens.listen(0, "127.0.0.1", resolve));
    const realm = `http://127.0.0.1:${(tokens.address() as AddressInfo).port}/token`;
    const auth = {
      nothing: {},
      passwords: { auth: { htpasswd: { realm: "room", path: join(folder, "htpasswd") } } },
      tokens: {
        auth: {
          token: { realm, service: "room", issuer: "here", rootcertbundle: join(folder, "certificate") },
        },
      },
    };
    for (const name of ["nothing", "passwords", "tokens"] as const) {
      hosts[name] = `127.0.0.1:${ports.pop()}`;
      await start(name, hosts[name], auth[name]);
    }
    await push();
  }, START_TIMEOUT_MILLISECONDS);

  afterAll(async () => {
    for (const child of processes) child.kill("SIGKILL");
    tokens.closeAllConnections();
    await new Promise((resolve) => tokens.close(resolve));
    rmSync(folder, { recursive: true, force: true });
  });

  async function start(name: string, host: string, auth: object): Promise<void> {
    const file = join(folder, `${name}.yaml`);
    writeFileSync(
      file,
      JSON.stringify({
        version: "0.1",
        log: { accesslog: { disabled: true }, level: "error" },
        storage: { filesystem: { rootdirectory: join(folder, "storage") } },
        http: { addr: host },
        ...auth,
      }),
    );
    const program = "path" in registry ? registry.path : "";
    const [command, argv] = dyingWithUs([program, "serve", file]);
    const child = spawn(command, argv, { cwd: folder, stdio: "ignore" });
    processes.push(child);
    for (;;) {
      if (child.exitCode !== null) throw new Error(`The registry with ${name} ended with ${child.exitCode}.`);
      const answer = await fetch(`http://${host}/v2/`).catch(() => null);
      if (answer !== null) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  /** An image without layers, and an index that has it, in the registry that asks for nothing. */
  async function push(): Promise<void> {
    const api = `http://${hosts.nothing}/v2/${REPOSITORY}`;
    const upload = await fetch(`${api}/blobs/uploads/`, { method: "POST" });
    const target = new URL(upload.headers.get("location") ?? "", api);
    target.searchParams.set("digest", digestOf(image.config));
    await put(target.href, "application/octet-stream", image.config);
    const config = { mediaType: "application/vnd.oci.image.config.v1+json", size: 2, digest: digestOf("{}") };
    image.manifest = JSON.stringify({ schemaVersion: 2, mediaType: MANIFEST, config, layers: [] });
    await put(`${api}/manifests/25.07`, MANIFEST, image.manifest);
    const platform = { architecture: "amd64", os: "linux" };
    const size = image.manifest.length;
    const manifests = [{ mediaType: MANIFEST, size, digest: digestOf(image.manifest), platform }];
    image.index = JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests });
    await put(`${api}/manifests/all`, INDEX, image.index);
  }

  async function put(url: string, type: string, body: string): Promise<void> {
    const response = await fetch(url, { method: "PUT", headers: { "content-type": type }, body });
    if (response.status !== 201) throw new Error(`PUT ${url}: ${response.status} ${await response.text()}`);
  }

  const ask = (name: keyof typeof hosts, credentials: CredentialSource, version: string) =>
    askRegistry(credentials)(`${hosts[name]}/${REPOSITORY}${version}`);

  test.each([
    ["nothing", nobody, true],
    ["passwords", me, false],
    ["tokens", me, false],
  ] as const)(
    "that asks for %s has images and indexes by digest and by tag, and no others",
    async (...row) => {
      const [name, credentials, isAnonymous] = row;
      for (const text of [image.manifest, image.index])
        expect(await ask(name, credentials, `:25.07@${digestOf(text)}`)).toEqual({ kind: "there" });
      for (const tag of [":25.07", ":all"])
        expect(await ask(name, credentials, tag)).toEqual({ kind: "there" });
      for (const version of [`:25.07@${OTHER_DIGEST}`, ":25.06", "-other:25.07"])
        expect(await ask(name, credentials, version)).toEqual({ kind: "missing", isAnonymous });
    },
  );

  test.each(["passwords", "tokens"] as const)(
    "that asks for %s refuses whoever has none, and whoever has a wrong one",
    async (name) => {
      expect(await ask(name, nobody, ":25.07")).toEqual({ kind: "refused", isAnonymous: true });
      expect(await ask(name, wrong, ":25.07")).toEqual({ kind: "refused", isAnonymous: false });
    },
  );

  /** Tokens as https://distribution.github.io/distribution/spec/auth/jwt/ has them: for `me` what is asked for, for strangers nothing. */
  function tokenServer(key: string, cert: string): Server {
    const chain = [cert.replaceAll(/-----[^-]+-----|\n/g, "")];
    return createServer((request, response) => {
      const { searchParams } = new URL(request.url ?? "", "http://tokens");
      const { authorization } = request.headers;
      if (authorization !== undefined && authorization !== BASIC) return response.writeHead(401).end();
      const [type, name, actions = ""] = (searchParams.get("scope") ?? "").split(":");
      const now = Math.floor(Date.now() / 1000);
      const claims = {
        iss: "here",
        sub: "me",
        aud: searchParams.get("service"),
        exp: now + 300,
        nbf: now - 60,
        iat: now,
        jti: randomUUID(),
        access: authorization === undefined ? [] : [{ type, name, actions: actions.split(",") }],
      };
      const parts = [{ typ: "JWT", alg: "ES256", x5c: chain }, claims];
      const text = parts.map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")).join(".");
      const signature = sign("sha256", Buffer.from(text), { key, dsaEncoding: "ieee-p1363" });
      return response.end(JSON.stringify({ token: `${text}.${signature.toString("base64url")}` }));
    });
  }
});
