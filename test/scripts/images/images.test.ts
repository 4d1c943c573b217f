import { type ChildProcess, spawn } from "node:child_process";
import { createHash, randomUUID, sign } from "node:crypto";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { dyingWithUs } from "../../../components/local/provider/commands.ts";
import {
  downloadGB,
  type ImageTarget,
  imageStates,
  lockImage,
  missingImages,
} from "../../../scripts/images/image-states.ts";
import { makeImage } from "../../../scripts/images/make-images.ts";
import {
  askRegistry,
  type Credential,
  type CredentialSource,
  dockerCredentials,
  temporaryDockerConfig,
} from "../../../scripts/images/registry.ts";
import { operations as dockerOperations } from "../../../scripts/platforms/docker.ts";
import { operations as kubernetesOperations } from "../../../scripts/platforms/kubernetes.ts";
import { hostProbe } from "../../../scripts/preflight/host-probe.ts";
import { certificateFor } from "../../harness/certificate.ts";
import { debianProgram } from "../../harness/debian-program.ts";
import { freePorts } from "../../harness/ports.ts";
import { needs } from "../../harness/requirements.ts";
import { stackFileText } from "../../harness/stack-files.ts";
import { runCommand } from "../plan/run-plan.ts";

describe("images of a stack", () => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-images-"));

  afterAll(() => rmSync(folder, { recursive: true }));

  const stackFile = join(folder, "stack.yaml");

  const lockFile = join(folder, "images.lock.json");

  const log = join(folder, "docker.log");

  function configure(values: Readonly<Record<string, unknown>>): void {
    writeFileSync(stackFile, stackFileText(values));
  }

  const cpu = {
    platform: "docker",
    tier: "cpu",
    images: { registry: "registry.example.org/room" },
    databases: "container",
    models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
  };

  const gpu = {
    platform: "docker",
    models: [{ name: "gpt", model: "gpt2-medium" }],
    host: { instanceType: "g5.4xlarge" },
  };

  function target(values: Readonly<Record<string, unknown>> = cpu): ImageTarget {
    configure(values);
    const stack = { name: "test", configFile: stackFile };
    const operations = values.platform === "kubernetes" ? kubernetesOperations : dockerOperations;
    return operations({ stack, values }).images()?.target ?? expect.fail("no images");
  }

  const built = (name: string, { images }: ImageTarget): string => {
    const image = images.find((one) => one.name === name);
    return image?.kind === "build" ? image.reference : expect.fail(`${name} is not built`);
  };

  const steps = (push: boolean, onHost: readonly string[] = []) =>
    Object.fromEntries(
      imageStates(target(), { push, onHost: new Set(onHost) }).map(({ key, steps: all }) => [key, all]),
    );

  test("a host builds the images that it lacks, and only a push locks them", () => {
    expect(steps(false)).toEqual({
      services: ["build"],
      "cpu-models": ["build"],
      mongo: ["pull", "lock"],
      qdrant: ["pull", "lock"],
    });
    expect(steps(true).services).toEqual(["build", "push", "lock"]);
  });

  test("an image that the host has is not built again", () => {
    const services = built("services", target());
    expect(steps(false, [services]).services).toEqual([]);
    expect(steps(true, [services]).services).toEqual(["push", "lock"]);
    expect(steps(false, ["mongo:8.0.26"]).mongo).toEqual(["lock"]);
  });

  test("a locked image needs no step", () => {
    const one = target();
    const contentHash = one.options.contentHashes.services ?? "";
    const lock = { version: 1, images: { services: { contentHash, reference: "r@sha256:1" } } } as const;
    const states = imageStates(
      { ...one, options: { ...one.options, lock } },
      { push: true, onHost: new Set() },
    );
    expect(states.find(({ key }) => key === "services")).toMatchObject({ state: "locked", steps: [] });
  });

  test("images of a cluster are built by this machine's Docker engine", () => {
    const registry = "registry.example.org/room";
    const of = target({
      platform: "kubernetes",
      databases: "container",
      images: { registry },
      models: [{ name: "gpt", model: "gpt2-medium" }],
      pools: [{ name: "gpu", instanceType: "g5.12xlarge", nodes: { min: 1, max: 2 } }],
    });
    expect(of).toMatchObject({ registry, uri: "unix:///var/run/docker.sock" });
    expect(imageStates(of, { push: true, onHost: new Set() }).map(({ key, steps }) => [key, steps])).toEqual([
      ["services", ["build", "push", "lock"]],
      ["trtllm-25.07", ["build", "push", "lock"]],
      ["encoders-25.07", ["build", "push", "lock"]],
      ["mongo", ["pull", "lock"]],
      ["qdrant", ["pull", "lock"]],
    ]);
  });

  test("the download counts NVIDIA's image unless the host has it", () => {
    const triton = { release: "25.07" };
    expect(downloadGB("trtllm", { triton, bases: {} }, new Set())).toBeCloseTo(18.301, 3);
    expect(
      downloadGB(
        "trtllm",
        { triton, bases: {} },
        new Set(["nvcr.io/nvidia/tritonserver:25.07-trtllm-python-py3"]),
      ),
    ).toBe(0.001);
    expect(downloadGB("trtllm", { triton: { release: "24.02" }, bases: {} }, new Set())).toBeGreaterThan(15);
  });

  test("an image is found on the host by its tag or its digest", () => {
    const { images } = target();
    const all = new Set([...images.map((image) => image.reference)]);
    expect(missingImages(images, new Set())).toHaveLength(4);
    const short = new Set([...all].map((name) => name.replace(/^docker\.io\/(library\/)?/, "")));
    expect(missingImages(images, short)).toEqual([]);
  });

  const entry = (digit: string) => ({ contentHash: digit.repeat(64), reference: `r@sha256:${digit}` });

  test("locking an image keeps the other entries, sorted by name", () => {
    for (const key of ["trtllm-25.07", "services", "mongo"]) lockImage(key, entry("1"), lockFile);
    lockImage("services", entry("2"), lockFile);
    const text = readFileSync(lockFile, "utf8");
    const { images } = JSON.parse(text) as { images: Record<string, unknown> };
    expect(Object.keys(images)).toEqual(["mongo", "services", "trtllm-25.07"]);
    expect(images.services).toEqual(entry("2"));
    expect(text.endsWith("}\n")).toBe(true);
    rmSync(lockFile);
  });

  /** A `docker` that records its arguments, and answers like an engine with a few images. */
  const FAKE_DOCKER = `#!/bin/sh
printf '%s|%s\\n' "$DOCKER_HOST" "$*" >> "$FAKE_LOG"
case "$1 $2" in
  "info --format") printf '{"ServerVersion":"28.2.2","DockerRootDir":"%s","Runtimes":{"runc":{}}}' "$FAKE_ROOT" ;;
  "image ls") printf '%b' "$FAKE_IMAGES" ;;
  "image inspect") printf 'other/repository@sha256:%064d\\nregistry.example.org/room/services@sha256:%064d\\nmongo@sha256:%064d\\n' 1 2 3 ;;
  "buildx version") [ -z "$FAKE_CLI" ] ;;
  "version --format") echo "$FAKE_CLI" ;;
  "push "*) [ -z "$FAKE_PUSH_FAILS" ] ;;
esac
`;

  describe("with a Docker CLI", () => {
    beforeEach(() => {
      writeFileSync(join(folder, "docker"), FAKE_DOCKER);
      chmodSync(join(folder, "docker"), 0o755);
      writeFileSync(log, "");
      vi.stubEnv("PATH", `${folder}:${process.env.PATH}`);
      vi.stubEnv("FAKE_LOG", log);
      vi.stubEnv("FAKE_ROOT", folder);
      vi.stubEnv("FAKE_IMAGES", "");
    });
    afterEach(() => {
      rmSync(lockFile, { force: true });
    });

    const calls = () =>
      readFileSync(log, "utf8")
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => line.split("|"));
    const uri = "ssh://me@gpu.example.org";
    const make = (key: string, push: boolean, secrets: readonly string[] = []) => {
      const state = imageStates(target(), { push, onHost: new Set() }).find((one) => one.key === key);
      if (state === undefined) throw new Error(`no ${key}`);
      return makeImage(state, { uri, probe: hostProbe(uri), secrets, lockFile });
    };

    test("an image is built on the host, tagged, pushed and locked by the registry's digest", async () => {
      await make("services", true, ["id=npmrc,src=/home/me/.npmrc"]);
      const tag = built("services", target());
      const pushed = tag.replace("engine-room/", "registry.example.org/room/");
      expect(calls().map(([, line]) => line)).toEqual([
        `build --file containers/services/Dockerfile --secret id=npmrc,src=/home/me/.npmrc --tag ${tag} .`,
        `tag ${tag} ${pushed}`,
        `push ${pushed}`,
        expect.stringContaining("image inspect"),
      ]);
      expect(calls().every(([host]) => host === uri)).toBe(true);
      const { images } = JSON.parse(readFileSync(lockFile, "utf8")) as ImageTarget["options"]["lock"];
      expect(images.services?.reference).toBe(
        `registry.example.org/room/services@sha256:${"2".padStart(64, "0")}`,
      );
    });

    test("a failed push locks nothing", async () => {
      vi.stubEnv("FAKE_PUSH_FAILS", "1");
      await expect(make("services", true)).rejects.toThrow(/docker push .* ended with exit code 1/);
      expect(() => readFileSync(lockFile)).toThrow("ENOENT");
    });

    test("a database's image is pulled and locked by its full name", async () => {
      await make("mongo", false);
      expect(calls()[0]?.[1]).toBe("pull docker.io/library/mongo:8.0.26");
      const { images } = JSON.parse(readFileSync(lockFile, "utf8")) as ImageTarget["options"]["lock"];
      expect(images.mongo?.reference).toBe(`docker.io/library/mongo@sha256:${"3".padStart(64, "0")}`);
    });

    const command = (...options: readonly string[]) =>
      runCommand("images", "--stack", "test", "--config-file", stackFile, ...options);

    test("`images --dry-run` lists states, steps, disk space and time, and changes nothing", async () => {
      configure(cpu);
      const { exitCode, stdout } = await command("--dry-run", "--push");
      expect(exitCode).toBe(0);
      expect(stdout).toMatch(
        /services +not there +build, push, lock +registry\.example\.org\/room\/services:/,
      );
      expect(stdout).toMatch(/About 2\.4 GB of the host's disk, and 41 s/);
      expect(calls().filter(([, line]) => /^(build|pull|push|tag)/.test(line ?? ""))).toEqual([]);
    });

    test("`images` counts the size of NVIDIA's images, and refuses a disk that is too small for them", async () => {
      configure(gpu);
      const { stdout } = await command("--dry-run");
      expect(stdout).toMatch(/trtllm-25\.07 +not there +build +engine-room\/trtllm:25\.07-/);
      expect(stdout).toMatch(/encoders-25\.07 +not there +build +engine-room\/encoders:25\.07-/);
      expect(stdout).toMatch(/About 34\.9 GB of the host's disk, and 10 min/);
      vi.stubEnv("FAKE_ROOT", "/proc");
      const { exitCode, stderr } = await command("--only", "trtllm");
      expect(exitCode).toBe(1);
      expect(stderr).toMatch(/\/proc has 0\.0 GB free\..*GB are needed: 18\.3 images trtllm, 5 in reserve/s);
      expect(calls().filter(([, line]) => line?.startsWith("build"))).toEqual([]);
    });

    test("`images` does nothing if every image exists", async () => {
      const one = target();
      const names = one.images.map((image) => image.reference);
      vi.stubEnv("FAKE_IMAGES", names.map((name) => `${name}\\n`).join(""));
      const { exitCode, stdout } = await command("--only", "services", "--only", "cpu-models");
      expect(exitCode).toBe(0);
      expect(stdout).not.toContain("Done");
      expect(calls().filter(([, line]) => line?.startsWith("build"))).toEqual([]);
    });

    test("`images` refuses a disk that is too small before anything is pulled", async () => {
      configure(cpu);
      vi.stubEnv("FAKE_ROOT", "/proc");
      const { exitCode, stderr } = await command("--only", "mongo");
      expect(exitCode).toBe(1);
      expect(stderr).toMatch(/\/proc has 0\.0 GB free\..*GB are needed: 0\.9 images mongo, 5 in reserve/s);
      expect(calls().filter(([, line]) => line?.startsWith("pull"))).toEqual([]);
    });

    test("`images` warns if the disk can't be measured", async () => {
      configure(cpu);
      // So that nothing is locked.
      vi.stubEnv("FAKE_PUSH_FAILS", "1");
      const df = join(folder, "df");
      writeFileSync(df, "#!/bin/sh\nexit 1\n", { mode: 0o755 });
      try {
        expect((await command("--only", "services", "--push")).stdout).toMatch(
          /Warning: The free space of .* can't be measured/,
        );
      } finally {
        rmSync(df);
      }
    });

    test("`images` refuses a push without a registry, an image of another stack, and another platform", async () => {
      configure({ ...cpu, images: {} });
      expect((await command("--push")).stderr).toContain("set images.registry");
      expect((await command("--only", "trtllm")).stderr).toContain(
        "--only trtllm is not an image of this stack",
      );
      configure({ platform: "local", models: cpu.models });
      expect((await command()).stderr).toContain("platform: docker");
    });
  });
});

const registry = await debianProgram("docker-registry");

const missing = "reason" in registry ? registry.reason : undefined;

const START_TIMEOUT_MILLISECONDS = 60_000;

const REPOSITORY = "room/trtllm";

const OTHER_DIGEST = `sha256:${"a".repeat(64)}`;

const MANIFEST = "application/vnd.oci.image.manifest.v1+json";

const INDEX = "application/vnd.oci.image.index.v1+json";

/** bcrypt of the password below. */
const HTPASSWD = "me:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";

const BASIC = `Basic ${Buffer.from("me:secret").toString("base64")}`;

const nobody: CredentialSource = async () => null;

const me: CredentialSource = async () => ({ kind: "password", auth: btoa("me:secret") });

const wrong: CredentialSource = async () => ({ kind: "password", auth: btoa("me:secrets") });

const digestOf = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`;

describe("a registry of Docker's", needs(missing), () => {
  let folder: string;
  let tokens: Server;
  const processes: ChildProcess[] = [];
  /** Host and port, by the credentials that they require; all have the same images. */
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
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Pushes an image without layers, and an index with it, to the registry without credentials. */
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
    "a registry that asks for %s answers for existing images and indexes by digest and tag",
    async (...row) => {
      const [name, credentials, isAnonymous] = row;
      for (const text of [image.manifest, image.index])
        expect(await ask(name, credentials, `:25.07@${digestOf(text)}`)).toEqual({ kind: "present" });
      for (const tag of [":25.07", ":all"])
        expect(await ask(name, credentials, tag)).toEqual({ kind: "present" });
      for (const version of [`:25.07@${OTHER_DIGEST}`, ":25.06", "-other:25.07"])
        expect(await ask(name, credentials, version)).toEqual({ kind: "missing", isAnonymous });
    },
  );

  test.each(["passwords", "tokens"] as const)(
    "a registry that asks for %s refuses missing and wrong credentials",
    async (name) => {
      expect(await ask(name, nobody, ":25.07")).toEqual({ kind: "refused", isAnonymous: true });
      expect(await ask(name, wrong, ":25.07")).toEqual({ kind: "refused", isAnonymous: false });
    },
  );

  /** Tokens of https://distribution.github.io/distribution/spec/auth/jwt/: `me` gets the requested access, others none. */
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

describe("requests to registries", () => {
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

  const somebody: CredentialSource = async () => ({ kind: "password", auth: btoa("me:secret") });

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

    test("a public registry gets one HEAD request for the digest", async () => {
      const accepted = vi.fn();
      const answer = await ask((request) => accepted(request.headers.accept));
      expect(answer).toEqual({ kind: "present" });
      expect(running?.requests).toEqual([`HEAD ${PATH} -`]);
      expect(accepted).toHaveBeenCalledWith(
        expect.stringContaining("application/vnd.oci.image.index.v1+json"),
      );
    });

    test("a registry gets a request for the tag if the reference has no digest", async () => {
      await ask(() => undefined, nobody, "room/trtllm:25.07-abc");
      expect(running?.requests).toEqual(["HEAD /v2/room/trtllm/manifests/25.07-abc -"]);
    });

    /** Returns a valid token to `me`, and a token without access to others. */
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

    test("a registry's token server gets the password", async () => {
      expect(await ask(withTokens(), somebody)).toEqual({ kind: "present" });
      expect(running?.requests).toEqual([
        `HEAD ${PATH} -`,
        `GET /token?service=room&scope=repository%3Aroom%2Ftrtllm%3Apull ${BASIC}`,
        `HEAD ${PATH} Bearer known`,
      ]);
    });

    test("a registry's token server gets the refresh token", async () => {
      const bodies: string[] = [];
      const refresh: CredentialSource = async () => ({ kind: "identityToken", token: "mine" });
      expect(
        await ask(
          withTokens((body) => bodies.push(body)),
          refresh,
        ),
      ).toEqual({ kind: "present" });
      expect(Object.fromEntries(new URLSearchParams(bodies[0]))).toEqual({
        grant_type: "refresh_token",
        client_id: "engine-room",
        refresh_token: "mine",
        scope: "repository:room/trtllm:pull",
        service: "room",
      });
    });

    test.each([
      ["status 429", (response: ServerResponse) => response.writeHead(429), /status 429/],
      [
        "no address of its token server",
        (response: ServerResponse) =>
          response.writeHead(401, { "www-authenticate": 'Bearer service="room"' }),
        /Invalid URL/,
      ],
      ["a closed connection", (response: ServerResponse) => response.destroy(), /fetch failed/],
    ])("a registry that answers with %s counts as unavailable", async (_, answer, words) => {
      expect(await ask((__, response) => answer(response))).toEqual({
        kind: "silent",
        words: expect.stringMatching(words),
      });
    });

    test("an unreachable registry counts as unavailable", async () => {
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
      rmSync(folder, { recursive: true });
    });

    /** Installs a credential helper that has one registry, with this output. */
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
      writeFileSync(
        join(folder, "config.json"),
        typeof config === "string" ? config : JSON.stringify(config),
      );
      return dockerCredentials(folder);
    };
    const auth = btoa("me:a:b");
    const password: Credential = { kind: "password", auth };

    test("a push fails when Docker's configuration can't be read", async () => {
      vi.stubEnv("DOCKER_CONFIG", folder);
      await credentials("{");
      expect(() => temporaryDockerConfig("known.example.org", auth)).toThrow(
        `${folder}/config.json can't be read`,
      );
      await credentials("");
      const own = temporaryDockerConfig("known.example.org", auth);
      const { auths } = JSON.parse(readFileSync(join(own, "config.json"), "utf8"));
      expect(auths).toEqual({ "known.example.org": { auth } });
    });

    test.each([
      ["a password", { auths: { "known.example.org": { auth } } }, password],
      [
        "a refresh token",
        { auths: { "known.example.org": { auth, identitytoken: "mine" } } },
        { kind: "identityToken", token: "mine" },
      ],
      ["only another registry", { auths: { "other.example.org": { auth } } }, null],
      // A login to a credentials store leaves this entry.
      ["an empty entry", { auths: { "known.example.org": {} } }, null],
      ["invalid JSON", "{", null],
      ["a path for a helper", { credsStore: "../../bin/sh" }, null],
      [
        "a missing helper and a password",
        { credsStore: "gone", auths: { "known.example.org": { auth } } },
        password,
      ],
    ] as const)("Docker's configuration with %s has the right credentials", async (_, config, expected) => {
      expect(await credentials(config)("known.example.org")).toEqual(expected);
    });

    test.each([
      ['{"Username":"me","Secret":"a:b"}', password],
      ['{"Username":"<token>","Secret":"mine"}', { kind: "identityToken", token: "mine" }],
      ["no JSON", null],
    ] as const)(
      "a credential helper that prints %s gives the right credentials",
      async (answer, expected) => {
        withHelper(answer);
        expect(
          await credentials({ credHelpers: { "known.example.org": "vault" } })("known.example.org"),
        ).toEqual(expected);
        expect(await credentials({ credsStore: "vault" })("known.example.org")).toEqual(expected);
        expect(await credentials({ credsStore: "vault" })("other.example.org")).toBeNull();
      },
    );

    test("a missing Docker configuration has no credentials", async () => {
      expect(await dockerCredentials(join(folder, "none"))("known.example.org")).toBeNull();
    });
  });
});
