/** What a fetch sends, takes, and waits for. */
import type { RequestListener } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { describe, expect, test } from "vitest";
import { BYTES, get, refusal, site } from "./fetching.ts";
import { networkOf, startSite, until } from "./web.ts";

describe("a fetch", () => {
  test("brings bytes and declared type, and sends nothing about anybody", async () => {
    const { port, requests, connections } = await site((_request, response) => {
      response.setHeader("content-type", "image/png; x=y").setHeader("set-cookie", "id=1").end(BYTES);
    });
    const setting = { network: networkOf([port]) };
    const url = `http://pictures.test:${port}/a%20b/c.png?size=1&x=%C3%A4#fragment`;
    expect(await get(url, setting)).toEqual({ bytes: BYTES, declaredType: "image/png; x=y" });
    await get(url, setting);
    for (const { method, url: path, headers } of requests) {
      expect([method, path]).toEqual(["GET", "/a%20b/c.png?size=1&x=%C3%A4"]);
      expect(headers).toEqual({
        host: `pictures.test:${port}`,
        connection: expect.any(String),
        accept: "image/jpeg, image/png, image/webp",
        "accept-encoding": "identity",
        "user-agent": "engine-room-gateway",
      });
    }
    expect(requests).toHaveLength(2);
    await until(() => connections() === 0);
  });

  test("takes no proxy from the environment", async () => {
    const proxy = await site((_request, response) => response.end("proxied"));
    const target = await site((_request, response) => response.end(BYTES));
    const names = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NODE_USE_ENV_PROXY"];
    const before = names.map((name) => process.env[name]);
    for (const name of names)
      process.env[name] = name.startsWith("NODE") ? "1" : `http://127.0.0.1:${proxy.port}`;
    try {
      const fetched = await get(`http://pictures.test:${target.port}/`, {
        network: networkOf([target.port]),
      });
      expect(fetched.bytes).toEqual(BYTES);
      expect(proxy.requests).toEqual([]);
    } finally {
      for (const [index, name] of names.entries()) {
        const value = before[index];
        if (value === undefined) delete process.env[name];
        else process.env[name] = value;
      }
    }
  });

  test("goes on to the next address when nobody listens at the first", async () => {
    const { port } = await site((_request, response) => response.end(BYTES));
    const network = networkOf([port], {
      resolve: async () => ["127.0.0.2", "127.0.0.1"].map((address) => ({ address, family: 4 })),
      mayConnect: () => true,
    });
    expect((await get(`http://pictures.test:${port}/`, { network })).bytes).toEqual(BYTES);
  });
});

describe("answers", () => {
  const limits = { bytes: 1000 };

  test.each([204, 206, 304, 400, 401, 404, 500, 503])("status %i is no image", async (status) => {
    const { port, connections } = await site((_request, response) => response.writeHead(status).end());
    const error = await refusal(`http://pictures.test:${port}/`, { network: networkOf([port]) });
    expect(error).toMatchObject({ status: 502, code: "image_fetch_failed" });
    expect(error.message).toContain(`status ${status}`);
    await until(() => connections() === 0);
  });

  test.each(["gzip", "br", "deflate", "zstd", "identity, gzip"])(
    "the encoding %s is refused",
    async (encoding) => {
      const { port } = await site((_request, response) => {
        response.writeHead(200, { "content-encoding": encoding }).end(BYTES);
      });
      const error = await refusal(`http://pictures.test:${port}/`, { network: networkOf([port]) });
      expect(error).toMatchObject({ status: 502, code: "image_fetch_failed" });
      expect(error.message).toContain(JSON.stringify(encoding));
    },
  );

  test("as many bytes as the limit are taken, with and without a length", async () => {
    const { port } = await site((request, response) => {
      if (request.url === "/length") response.setHeader("content-length", 1000);
      response.write(Buffer.alloc(400));
      response.end(Buffer.alloc(600));
    });
    for (const path of ["length", "chunked"]) {
      const { bytes } = await get(`http://pictures.test:${port}/${path}`, {
        network: networkOf([port]),
        limits,
      });
      expect(bytes).toHaveLength(1000);
    }
  });

  test("one byte more by the length is refused before any byte comes", async () => {
    const { port, connections } = await site((_request, response) => {
      response.writeHead(200, { "content-length": 1001 }).flushHeaders();
    });
    const error = await refusal(`http://pictures.test:${port}/`, { network: networkOf([port]), limits });
    expect(error).toMatchObject({ status: 413, code: "image_too_large" });
    expect(error.message).toContain("1001 bytes, and at most 1000");
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
    const error = await refusal(`http://pictures.test:${port}/`, { network: networkOf([port]), limits });
    expect(error).toMatchObject({ status: 413, code: "image_too_large" });
    await until(() => connections() === 0);
  });

  test("a redirect's endless body is not read", async () => {
    const { port, connections } = await site((request, response) => {
      if (request.url === "/picture") return void response.end(BYTES);
      response.writeHead(302, { location: "/picture" });
      const more = () => {
        while (!response.destroyed && response.write(Buffer.alloc(16_384)));
      };
      response.on("drain", more);
      more();
    });
    const { bytes } = await get(`http://pictures.test:${port}/`, { network: networkOf([port]), limits });
    expect(bytes).toEqual(BYTES);
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
      const error = await refusal(`http://pictures.test:${port}/`, { network: networkOf([port]) });
      expect(error).toMatchObject({ status: 502, code: "image_fetch_failed" });
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
  });

  test.each([
    ["fails", () => Promise.reject(Object.assign(new Error("no such name"), { code: "ENOTFOUND" }))],
    ["knows no address", async () => []],
    ["leads to a port where nobody listens", async () => [{ address: "127.0.0.1", family: 4 }]],
  ])("a name that %s is a failed fetch", async (_kind, resolve) => {
    const { port, close } = await startSite(() => undefined);
    await close();
    const error = await refusal(`http://pictures.test:${port}/`, { network: networkOf([port], { resolve }) });
    expect(error).toMatchObject({ status: 502, code: "image_fetch_failed" });
    expect(error.message).toContain(`pictures.test:${port}`);
  });
});

describe("time", () => {
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
  ])("a server that %s is left", async (_kind, answer) => {
    const { port, connections } = await site(answer);
    const error = await refusal(`http://pictures.test:${port}/`, { network: networkOf([port]), limits });
    expect(error).toMatchObject({ status: 504, code: "image_fetch_timeout" });
    expect(error.message).toContain("within 0.2 s");
    await until(() => connections() === 0);
  });

  test("a server that sends a byte now and then is left", async () => {
    const { port, connections } = await site((_request, response) => {
      const timer = setInterval(() => response.write("x"), 10);
      response.on("close", () => clearInterval(timer));
    });
    const error = await refusal(`http://pictures.test:${port}/`, { network: networkOf([port]), limits });
    expect(error.code).toBe("image_fetch_timeout");
    await until(() => connections() === 0);
  });

  test("a resolver that never answers is left", async () => {
    const network = networkOf([80], { resolve: () => new Promise(() => undefined) });
    expect((await refusal("http://pictures.test/", { network, limits })).code).toBe("image_fetch_timeout");
  });

  test("the caller's signal ends it with its own reason", async () => {
    const reason = new Error("the client left");
    const controller = new AbortController();
    const { port, connections } = await site(() => controller.abort(reason));
    const setting = { network: networkOf([port]), signal: controller.signal };
    await expect(get(`http://pictures.test:${port}/`, setting)).rejects.toBe(reason);
    await until(() => connections() === 0);
    await expect(get(`http://pictures.test:${port}/`, setting)).rejects.toBe(reason);
    const waiting = new AbortController();
    const network = networkOf([port], {
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
