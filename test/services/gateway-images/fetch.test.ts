/** Fetches of pictures: their requests, accepted responses, timeouts and allowed hosts; and pictures of all sources. */
import { setMaxListeners } from "node:events";
import type { RequestListener } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import sharp from "sharp";
import { afterEach, describe, expect, test } from "vitest";
import { INTERNET } from "../../../containers/services/gateway/src/images/fetch-image.ts";
import { ImageError } from "../../../containers/services/gateway/src/images/limits.ts";
import {
  createImageContext,
  type ImageContext,
  readImage,
} from "../../../containers/services/gateway/src/images/source.ts";
import { certificateFor } from "../../harness/certificate.ts";
import { times } from "../../harness/thorough.ts";
import { until } from "../service-process.ts";
import { BYTES, get, refusal, refusalOf, site } from "./fetching.ts";
import { plain } from "./pictures.ts";
import { networkOf, type Site, startSite } from "./web.ts";

test("a fetch returns the bytes, and sends nothing about the client", async () => {
  const { port, requests, connections } = await site((_request, response) => {
    response.setHeader("content-type", "image/png; x=y").setHeader("set-cookie", "id=1").end(BYTES);
  });
  const setting = { network: networkOf() };
  const url = `http://pictures.test:${port}/a%20b/c.png?size=1&x=%C3%A4#fragment`;
  expect(await get(url, setting)).toEqual(BYTES);
  await get(url, setting);
  for (const { method, url: path, headers } of requests) {
    expect([method, path]).toEqual(["GET", "/a%20b/c.png?size=1&x=%C3%A4"]);
    expect(headers).toEqual({
      host: `pictures.test:${port}`,
      // So that each request's address is looked up and checked.
      connection: "close",
      accept: "image/jpeg, image/png, image/webp",
      "accept-encoding": "identity",
      "user-agent": "engine-room-gateway",
    });
  }
  expect(requests).toHaveLength(2);
  await until(() => connections() === 0);
});

test("a fetch ignores the proxies of the environment", async () => {
  const proxy = await site((_request, response) => response.end("proxied"));
  const target = await site((_request, response) => response.end(BYTES));
  const names = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NODE_USE_ENV_PROXY"];
  const before = names.map((name) => process.env[name]);
  for (const name of names)
    process.env[name] = name.startsWith("NODE") ? "1" : `http://127.0.0.1:${proxy.port}`;
  try {
    const fetched = await get(`http://pictures.test:${target.port}/`, {
      network: networkOf(),
    });
    expect(fetched).toEqual(BYTES);
    expect(proxy.requests).toEqual([]);
  } finally {
    for (const [index, name] of names.entries()) {
      const value = before[index];
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
});

test("a fetch tries the next address when the first refuses the connection", async () => {
  const { port } = await site((_request, response) => response.end(BYTES));
  const network = networkOf({
    resolve: async () => ["127.0.0.2", "127.0.0.1"].map((address) => ({ address, family: 4 })),
    mayConnect: () => true,
  });
  expect(await get(`http://pictures.test:${port}/`, { network })).toEqual(BYTES);
});

describe("fetched answers", () => {
  const limits = { bytes: 1000 };

  test.each([204, 206, 304, 400, 401, 404, 500, 503])(
    "an answer with status %i is a failed fetch",
    async (status) => {
      const { port, connections } = await site((_request, response) => response.writeHead(status).end());
      const error = await refusal(`http://pictures.test:${port}/`, { network: networkOf() });
      expect(error).toMatchObject({ status: 502, code: "image_fetch_failed" });
      expect(error.message).toContain(`status ${status}`);
      await until(() => connections() === 0);
    },
  );

  test("an answer of exactly the size limit is accepted, with and without a length", async () => {
    const { port } = await site((request, response) => {
      if (request.url === "/length") response.setHeader("content-length", 1000);
      response.write(Buffer.alloc(400));
      response.end(Buffer.alloc(600));
    });
    for (const path of ["length", "chunked"]) {
      const bytes = await get(`http://pictures.test:${port}/${path}`, {
        network: networkOf(),
        limits,
      });
      expect(bytes).toHaveLength(1000);
    }
  });

  test("an answer whose length is one byte too large is refused before its body", async () => {
    const { port, connections } = await site((_request, response) => {
      response.writeHead(200, { "content-length": 1001 }).flushHeaders();
    });
    const error = await refusal(`http://pictures.test:${port}/`, { network: networkOf(), limits });
    expect(error).toMatchObject({ status: 413, code: "image_too_large" });
    expect(error.message).toContain("1001 bytes, and the limit is 1000");
    await until(() => connections() === 0);
  });

  test("an endless answer is cut off", async () => {
    const { port, connections } = await site((_request, response) => {
      const more = () => {
        while (!response.destroyed && response.write(Buffer.alloc(16_384)));
      };
      response.on("drain", more);
      more();
    });
    const error = await refusal(`http://pictures.test:${port}/`, { network: networkOf(), limits });
    expect(error).toMatchObject({ status: 413, code: "image_too_large" });
    await until(() => connections() === 0);
  });

  test("the endless body of a redirect is not read", async () => {
    const { port, connections } = await site((request, response) => {
      if (request.url === "/picture") return void response.end(BYTES);
      response.writeHead(302, { location: "/picture" });
      const more = () => {
        while (!response.destroyed && response.write(Buffer.alloc(16_384)));
      };
      response.on("drain", more);
      more();
    });
    expect(await get(`http://pictures.test:${port}/`, { network: networkOf(), limits })).toEqual(BYTES);
    await until(() => connections() === 0);
  });

  test.each([
    ["nothing", ""],
    ["garbage", "\0\0\0hello\r\n\r\n"],
    ["another protocol", "SSH-2.0-OpenSSH_9.6\r\n"],
    ["fewer bytes than promised", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort"],
    ["a broken chunk", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"],
    ["two lengths", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello"],
    ["endless headers", `HTTP/1.1 200 OK\r\n${"x: y\r\n".repeat(100_000)}`],
  ])("%s instead of an answer is a failed fetch", async (_kind, text) => {
    const server = createServer((socket) => {
      socket.on("error", () => undefined).once("data", () => socket.end(text));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    try {
      const error = await refusal(`http://pictures.test:${port}/`, { network: networkOf() });
      expect(error).toMatchObject({ status: 502, code: "image_fetch_failed" });
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
  });

  test.each([
    ["fails", () => Promise.reject(Object.assign(new Error("no such name"), { code: "ENOTFOUND" }))],
    ["leads to a port where nothing listens", async () => [{ address: "127.0.0.1", family: 4 }]],
  ])("a name whose lookup %s is a failed fetch", async (_kind, resolve) => {
    const { port, close } = await startSite(() => undefined);
    await close();
    const error = await refusal(`http://pictures.test:${port}/`, { network: networkOf({ resolve }) });
    expect(error).toMatchObject({ status: 502, code: "image_fetch_failed" });
    expect(error.message).toContain(`pictures.test:${port}`);
  });
});

describe("time limits", () => {
  const limits = { fetchSeconds: 0.2 };

  test.each<[string, RequestListener]>([
    ["never answers", () => undefined],
    ["never ends its answer", (_request, response) => void response.write("x")],
    [
      "redirects and then never answers",
      (request, response) => {
        if (request.url === "/") response.writeHead(302, { location: "/next" }).end();
      },
    ],
  ])("a server that %s is given up", async (_kind, answer) => {
    const { port, connections } = await site(answer);
    const error = await refusal(`http://pictures.test:${port}/`, { network: networkOf(), limits });
    expect(error).toMatchObject({ status: 504, code: "image_fetch_timeout" });
    expect(error.message).toContain("within 0.2 s");
    await until(() => connections() === 0);
  });

  test("a server that sends a byte now and then is given up", async () => {
    const { port, connections } = await site((_request, response) => {
      const timer = setInterval(() => response.write("x"), 10);
      response.on("close", () => clearInterval(timer));
    });
    const error = await refusal(`http://pictures.test:${port}/`, { network: networkOf(), limits });
    expect(error.code).toBe("image_fetch_timeout");
    await until(() => connections() === 0);
  });

  test("a resolver that never answers is given up", async () => {
    const network = networkOf({ resolve: () => new Promise(() => undefined) });
    expect((await refusal("http://pictures.test/", { network, limits })).code).toBe("image_fetch_timeout");
  });

  test("an aborted fetch fails with the reason of its signal", async () => {
    const reason = new Error("the client left");
    const controller = new AbortController();
    const { port, connections } = await site(() => controller.abort(reason));
    const setting = { network: networkOf(), signal: controller.signal };
    await expect(get(`http://pictures.test:${port}/`, setting)).rejects.toBe(reason);
    await until(() => connections() === 0);
    await expect(get(`http://pictures.test:${port}/`, setting)).rejects.toBe(reason);
    const waiting = new AbortController();
    const network = networkOf({
      resolve: () => {
        waiting.abort(reason);
        return new Promise(() => undefined);
      },
    });
    await expect(get(`http://pictures.test:${port}/`, { network, signal: waiting.signal })).rejects.toBe(
      reason,
    );
  });
});

test.each([
  "0.0.0.0",
  "10.1.2.3",
  "100.64.0.1",
  "127.0.0.1",
  "127.8.9.1",
  "169.254.169.254",
  "172.16.0.1",
  "192.168.0.1",
  "198.18.0.1",
  "224.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::127.0.0.1",
  "::ffff:127.0.0.1",
  "::ffff:a9fe:a9fe",
  "64:ff9b::a9fe:a9fe",
  "2001::1",
  "2002:7f00:1::",
  "fc00::1",
  "fd00:ec2::254",
  "fe80::1",
  "ff02::1",
])("the gateway does not connect to %s when a name leads to it", async (address) => {
  const { port, requests, connections } = await site((_request, response) => response.end(BYTES));
  const resolved = { address, family: address.includes(":") ? 6 : 4 };
  for (const addresses of [[resolved], [{ address: "93.184.216.34", family: 4 }, resolved]]) {
    const network = { ...INTERNET, resolve: async () => addresses };
    const error = await refusal(`http://pictures.test:${port}/`, { network });
    expect(error).toMatchObject({ status: 400, code: "image_address_not_public" });
    // The error does not show the address.
    expect(error.message).not.toContain(address);
  }
  expect([requests.length, connections()]).toEqual([0, 0]);
});

test("the program's own network looks names up, and refuses this machine", async () => {
  const addresses = await INTERNET.resolve("localhost");
  expect(addresses.length).toBeGreaterThan(0);
  for (const { address } of addresses) expect(INTERNET.mayConnect(address)).toBe(false);
});

test("a name without any address is refused", async () => {
  const network = networkOf({ resolve: async () => [] });
  expect((await refusal("http://pictures.test/", { network })).code).toBe("image_address_not_public");
});

test("a host outside the list is not looked up", async () => {
  let lookups = 0;
  const network = networkOf({
    resolve: async () => {
      lookups += 1;
      return [];
    },
  });
  const hosts = ["pictures.test"];
  for (const url of [
    "http://other.test/",
    "http://127.0.0.1/",
    "http://2130706433/",
    "http://pictures.test:81/",
  ]) {
    expect((await refusal(url, { network, hosts })).code).toBe("image_host_not_allowed");
  }
  expect(lookups).toBe(0);
});

test("a resolver that changes its answer after the check has no effect", async () => {
  const checked = await site((_request, response) => response.end(BYTES));
  const inner = await site((_request, response) => response.end("secret"), {
    address: "127.0.0.2",
    port: checked.port,
  });
  const answers = ["127.0.0.1", "127.0.0.2", "127.0.0.2", "127.0.0.2"];
  const network = networkOf({
    resolve: async () => [{ address: answers.shift() ?? "127.0.0.2", family: 4 }],
  });
  expect(await get(`http://pictures.test:${checked.port}/`, { network })).toEqual(BYTES);
  expect(answers).toHaveLength(3);
  expect(inner.requests).toEqual([]);
});

test("a resolver that leads a redirect to a private address is refused", async () => {
  const outer = await site((_request, response) => response.writeHead(302, { location: "/again" }).end());
  const inner = await site((_request, response) => response.end("secret"), {
    address: "127.0.0.2",
    port: outer.port,
  });
  const answers = ["127.0.0.1", "127.0.0.2"];
  const network = networkOf({
    resolve: async () => [{ address: answers.shift() ?? "", family: 4 }],
  });
  expect((await refusal(`http://pictures.test:${outer.port}/`, { network })).code).toBe(
    "image_address_not_public",
  );
  expect([outer.requests.length, inner.requests.length]).toEqual([1, 0]);
});

describe("redirects", () => {
  /** `/3` redirects to `/2`, and so on; `/0` is the picture. */
  const countdown: RequestListener = (request, response) => {
    const left = Number(request.url?.slice(1));
    if (left === 0) response.end(BYTES);
    else
      response
        .writeHead(left % 2 ? 301 : 307, { location: String(left - 1), "set-cookie": "id=1" })
        .end("moved");
  };

  test("three redirects are followed, without cookies, and a fourth is refused", async () => {
    const { port, requests, connections } = await site(countdown);
    const setting = { network: networkOf() };
    expect(await get(`http://pictures.test:${port}/3`, setting)).toEqual(BYTES);
    expect(requests.map(({ url }) => url)).toEqual(["/3", "/2", "/1", "/0"]);
    expect(requests.filter(({ headers }) => headers.cookie ?? headers.referer)).toEqual([]);

    const error = await refusal(`http://pictures.test:${port}/4`, setting);
    expect(error).toMatchObject({ status: 502, code: "image_redirect_refused" });
    expect(error.message).toContain("more than 3 redirects");
    await until(() => connections() === 0);
  });

  test("a redirect from an allowed host to another is followed", async () => {
    const target = await site((_request, response) => response.end(BYTES));
    const location = `http://b.test:${target.port}/picture`;
    const first = await site((_request, response) => response.writeHead(303, { location }).end());
    const names: string[] = [];
    const network = networkOf({
      resolve: async (name) => {
        names.push(name);
        return [{ address: "127.0.0.1", family: 4 }];
      },
    });
    const hosts = [`a.test.example:${first.port}`, `b.test:${target.port}`];
    expect(await get(`http://a.test.example:${first.port}/`, { network, hosts })).toEqual(BYTES);
    expect(names).toEqual(["a.test.example", "b.test"]);
    expect(target.requests[0]?.headers.host).toBe(`b.test:${target.port}`);
  });

  test.each([
    ["http://127.0.0.1:PORT/", "image_host_not_allowed"],
    ["http://2130706433:PORT/", "image_host_not_allowed"],
    ["http://0177.0.0.1:PORT/", "image_host_not_allowed"],
    ["http://[::ffff:127.0.0.1]:PORT/", "image_host_not_allowed"],
    ["http://169.254.169.254/latest/meta-data/", "image_host_not_allowed"],
    ["http://other.test:PORT/", "image_host_not_allowed"],
    ["//other.test:PORT/", "image_host_not_allowed"],
    ["http://user:pass@pictures.test:FIRST/", "invalid_image_url"],
    ["file:///etc/passwd", "invalid_image_url"],
    ["gopher://pictures.test:FIRST/", "invalid_image_url"],
    ["http://", "invalid_image_url"],
    [undefined, "invalid_image_url"],
  ])("a redirect to %s is refused", async (location, code) => {
    const inner = await site((_request, response) => response.end("secret"));
    const first = await site((_request, response) => {
      const target = location?.replace("PORT", String(inner.port)).replace("FIRST", String(first.port));
      response.writeHead(302, target === undefined ? {} : { location: target }).end();
    });
    const network = networkOf();
    expect((await refusal(`http://pictures.test:${first.port}/`, { network })).code).toBe(code);
    expect([first.requests.length, inner.requests.length]).toEqual([1, 0]);
  });
});

describe("https", () => {
  const certificate = certificateFor("pictures.test");
  const trusted = { ca: certificate.cert };

  test("a TLS connection names the host of the URL, with any address", async () => {
    const { port, requests } = await site((_request, response) => response.end(BYTES), { certificate });
    const network = networkOf(trusted);
    expect(await get(`https://pictures.test:${port}/`, { network })).toEqual(BYTES);
    expect(requests[0]?.socket).toHaveProperty("servername", "pictures.test");
  });

  test("a certificate for another name or from an unknown issuer is refused in any environment", async () => {
    const { port, requests } = await site((_request, response) => response.end(BYTES), { certificate });
    const before = process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
    try {
      const otherName = await refusal(`https://other.test:${port}/`, { network: networkOf(trusted) });
      expect(otherName).toMatchObject({ status: 502, code: "image_fetch_failed" });
      expect(otherName.cause).toMatchObject({ code: "ERR_TLS_CERT_ALTNAME_INVALID" });
      const nobody = await refusal(`https://pictures.test:${port}/`, { network: networkOf() });
      expect(nobody.cause).toMatchObject({ code: "DEPTH_ZERO_SELF_SIGNED_CERT" });
    } finally {
      if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
      else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before;
    }
    expect(requests).toEqual([]);
  });

  test("a redirect from https to http is refused", async () => {
    const plain = await site((_request, response) => response.end(BYTES));
    const location = `http://pictures.test:${plain.port}/`;
    const secure = await site((_request, response) => response.writeHead(302, { location }).end(), {
      certificate,
    });
    const error = await refusal(`https://pictures.test:${secure.port}/`, {
      network: networkOf(trusted),
      hosts: [`pictures.test:${plain.port}`, `pictures.test:${secure.port}`],
    });
    expect(error).toMatchObject({ status: 502, code: "image_redirect_refused" });
    expect(error.message).toContain("from https to http");
    expect(plain.requests).toEqual([]);
  });

  test("a redirect from http to https is followed", async () => {
    const secure = await site((_request, response) => response.end(BYTES), { certificate });
    const location = `https://pictures.test:${secure.port}/`;
    const plain = await site((_request, response) => response.writeHead(308, { location }).end());
    const fetched = await get(`http://pictures.test:${plain.port}/`, {
      network: networkOf(trusted),
      hosts: [`pictures.test:${plain.port}`, `pictures.test:${secure.port}`],
    });
    expect(fetched).toEqual(BYTES);
  });
});

describe("image sources", async () => {
  const { signal } = new AbortController();

  // All tests share it; each request of the gateway has its own.
  setMaxListeners(0, signal);

  const png = await plain(40, 30).png().toBuffer();

  const dataUrl = (type: string, bytes: Buffer) => `data:${type};base64,${bytes.toString("base64")}`;

  let site: Site | undefined;

  afterEach(async () => {
    await site?.close();
    site = undefined;
  });

  async function expectUnused({ decodes, fetches }: ImageContext): Promise<void> {
    expect([decodes.taken, decodes.waiting, fetches.taken, fetches.waiting]).toEqual([0, 0, 0, 0]);
    expect(sharp.counters()).toEqual({ queue: 0, process: 0 });
  }

  test("bytes, data URL and http give the same picture", async () => {
    site = await startSite((_request, response) => response.end(png));
    const context = createImageContext({
      hosts: [`pictures.test:${site.port}`],
      network: networkOf(),
    });
    const pictures = await Promise.all([
      readImage(png, context, signal),
      readImage({ url: dataUrl("image/png", png) }, context, signal),
      readImage({ url: `http://pictures.test:${site.port}/a.png` }, context, signal),
    ]);
    expect(new Set(pictures.map(({ sha256 }) => sha256)).size).toBe(1);
    expect(pictures[0]).toMatchObject({ width: 40, height: 30 });
    await expectUnused(context);
  });

  test("the declared type is ignored, in a data URL and from a server", async () => {
    site = await startSite((_request, response) => response.setHeader("content-type", "text/plain").end(png));
    const context = createImageContext({ hosts: [`pictures.test:${site.port}`], network: networkOf() });
    const sources = [{ url: dataUrl("image/jpeg", png) }, { url: `http://pictures.test:${site.port}/` }];
    for (const source of sources) {
      expect(await readImage(source, context, signal)).toMatchObject({ width: 40, height: 30 });
    }
  });

  test.each([
    ["a page in place of a picture", "<!doctype html><title>Not found</title>", {}],
    ["a packed picture", gzipSync(png), { "content-encoding": "gzip" }],
  ])("%s is refused", async (_what, body, headers) => {
    site = await startSite((_request, response) =>
      response.writeHead(200, { "content-type": "image/png", ...headers }).end(body),
    );
    const context = createImageContext({ hosts: [`pictures.test:${site.port}`], network: networkOf() });
    for (const source of [
      { url: `http://pictures.test:${site.port}/` },
      { url: dataUrl("image/png", Buffer.from(body)) },
      Buffer.from(body),
    ]) {
      const error = await refusalOf(() => readImage(source, context, signal));
      expect(error).toMatchObject({ status: 415, code: "unsupported_image_type" });
    }
    await expectUnused(context);
  });

  test("a random text as a URL is refused", async () => {
    const context = createImageContext({ hosts: ["pictures.test"], network: networkOf() });
    const part = fc.constantFrom(
      "http:",
      "https:",
      "data:",
      "//",
      "pictures.test",
      "127.0.0.1",
      "@",
      ":",
      "image/png",
      ";base64",
      ",",
      "AAAA",
    );
    const texts = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.webUrl(),
      fc.array(fc.oneof(part, fc.string({ maxLength: 5 }))).map((parts) => parts.join("")),
    );
    await fc.assert(
      fc.asyncProperty(texts, async (url) => {
        await expect(readImage({ url }, context, signal)).rejects.toBeInstanceOf(ImageError);
      }),
      { numRuns: times(100, 5000) },
    );
    await expectUnused(context);
  });

  describe("many at a time", () => {
    /**
     * Maximum number of images that sharp processed at once. Its queue is not counted: a task that leaves the queue between
     * the readings of the two counters would be in both.
     */
    async function mostAtOnce(work: () => Promise<unknown>): Promise<number> {
      let most = 0;
      const timer = setInterval(() => {
        most = Math.max(most, sharp.counters().process);
      }, 1);
      try {
        await work();
      } finally {
        clearInterval(timer);
      }
      return most;
    }

    test("many large images are all decoded, two at a time", async () => {
      const large = await plain(6000, 6000).png({ compressionLevel: 1 }).toBuffer();
      // The time limit is high, so that other work on the machine does not matter.
      const context = createImageContext({ limits: { decodeSeconds: 100 } });
      const read = () => readImage(large, context, signal);
      const most = await mostAtOnce(async () => {
        const pictures = await Promise.all(Array.from({ length: times(6, 20) }, read));
        expect(new Set(pictures.map(({ sha256 }) => sha256)).size).toBe(1);
      });
      expect(most).toBe(context.limits.concurrentDecodes);
      await expectUnused(context);
    });

    test("requests beyond places and queue are refused with 503", async () => {
      const context = createImageContext({ limits: { concurrentDecodes: 2, queueLength: 5 } });
      const results = await Promise.allSettled(
        Array.from({ length: 20 }, () => readImage({ url: dataUrl("image/png", png) }, context, signal)),
      );
      const refused = results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
      expect(refused).toHaveLength(20 - 2 - 5);
      for (const error of refused)
        expect(error).toMatchObject({ details: { status: 503, code: "overloaded" } });
      await expectUnused(context);
    });

    test("a fetched image keeps its place until it is decoded", async () => {
      site = await startSite((_request, response) => response.end(png));
      const context = createImageContext({
        hosts: [`pictures.test:${site.port}`],
        network: networkOf(),
        limits: { concurrentDecodes: 1, concurrentFetches: 2 },
      });
      const releaseDecoder = await context.decodes.acquire(signal);
      const url = `http://pictures.test:${site.port}/`;
      const reading = Promise.all(Array.from({ length: 5 }, () => readImage({ url }, context, signal)));
      await until(() => context.decodes.waiting === 2);
      expect([site.requests.length, context.fetches.taken, context.fetches.waiting]).toEqual([2, 2, 3]);
      releaseDecoder();
      expect(await reading).toHaveLength(5);
      await expectUnused(context);
    });

    test("a refused image and a client that leaves free their places", async () => {
      const context = createImageContext({ limits: { concurrentDecodes: 1 } });
      await expect(readImage(Buffer.from("x"), context, signal)).rejects.toBeInstanceOf(ImageError);
      await expect(readImage({ url: "data:,x" }, context, signal)).rejects.toBeInstanceOf(ImageError);
      await expect(readImage({ url: "http://pictures.test/" }, context, signal)).rejects.toBeInstanceOf(
        ImageError,
      );
      const release = await context.decodes.acquire(signal);
      const leaving = new AbortController();
      const reading = readImage(png, context, leaving.signal);
      leaving.abort(new Error("the client left"));
      await expect(reading).rejects.toThrow("the client left");
      release();
      await expectUnused(context);
    });
  });
});
