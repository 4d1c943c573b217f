/** That a fetch reaches only what it may: addresses, redirects and certificates. */
import type { RequestListener } from "node:http";
import { describe, expect, test } from "vitest";
import { INTERNET } from "../../../containers/services/gateway/src/images/fetch-image.ts";
import { certificateFor } from "../../harness/certificate.ts";
import { BYTES, get, refusal, site } from "./fetching.ts";
import { networkOf, until } from "./web.ts";

describe("addresses", () => {
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
  ])("a name that leads to %s is not connected to", async (address) => {
    const { port, requests, connections } = await site((_request, response) => response.end(BYTES));
    const resolved = { address, family: address.includes(":") ? 6 : 4 };
    for (const addresses of [[resolved], [{ address: "93.184.216.34", family: 4 }, resolved]]) {
      const network = { ...INTERNET, resolve: async () => addresses };
      const error = await refusal(`http://pictures.test:${port}/`, { network });
      expect(error).toMatchObject({ status: 400, code: "image_address_not_public" });
      // A stranger does not learn the address; the log does.
      expect(error.message).not.toContain(address);
      expect(String(error.cause)).toContain(address);
    }
    expect([requests.length, connections()]).toEqual([0, 0]);
  });

  test("the program's own network looks names up, and refuses this machine", async () => {
    const addresses = await INTERNET.resolve("localhost");
    expect(addresses.length).toBeGreaterThan(0);
    for (const { address } of addresses) expect(INTERNET.mayConnect(address, 80)).toBe(false);
  });

  test("a host outside the list is not even looked up", async () => {
    let lookups = 0;
    const network = networkOf([80], {
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

  test("a resolver that changes its mind after the check has no effect", async () => {
    const checked = await site((_request, response) => response.end(BYTES));
    const inner = await site((_request, response) => response.end("secret"), {
      address: "127.0.0.2",
      port: checked.port,
    });
    const answers = ["127.0.0.1", "127.0.0.2", "127.0.0.2", "127.0.0.2"];
    const network = networkOf([checked.port], {
      resolve: async () => [{ address: answers.shift() ?? "127.0.0.2", family: 4 }],
    });
    expect((await get(`http://pictures.test:${checked.port}/`, { network })).bytes).toEqual(BYTES);
    expect(answers).toHaveLength(3);
    expect(inner.requests).toEqual([]);
  });

  test("a resolver that changes its mind between two redirects is found out", async () => {
    const outer = await site((_request, response) => response.writeHead(302, { location: "/again" }).end());
    const inner = await site((_request, response) => response.end("secret"), {
      address: "127.0.0.2",
      port: outer.port,
    });
    const answers = ["127.0.0.1", "127.0.0.2"];
    const network = networkOf([outer.port], {
      resolve: async () => [{ address: answers.shift() ?? "", family: 4 }],
    });
    expect((await refusal(`http://pictures.test:${outer.port}/`, { network })).code).toBe(
      "image_address_not_public",
    );
    expect([outer.requests.length, inner.requests.length]).toEqual([1, 0]);
  });
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

  test("three are followed, without cookies, and a fourth is not", async () => {
    const { port, requests, connections } = await site(countdown);
    const setting = { network: networkOf([port]) };
    expect((await get(`http://pictures.test:${port}/3`, setting)).bytes).toEqual(BYTES);
    expect(requests.map(({ url }) => url)).toEqual(["/3", "/2", "/1", "/0"]);
    expect(requests.filter(({ headers }) => headers.cookie ?? headers.referer)).toEqual([]);

    const error = await refusal(`http://pictures.test:${port}/4`, setting);
    expect(error).toMatchObject({ status: 502, code: "image_redirect_refused" });
    expect(error.message).toContain("more than 3 times");
    await until(() => connections() === 0);
  });

  test("from one host of the list to another", async () => {
    const target = await site((_request, response) => response.end(BYTES));
    const location = `http://b.test:${target.port}/picture`;
    const first = await site((_request, response) => response.writeHead(303, { location }).end());
    const names: string[] = [];
    const network = networkOf([first.port, target.port], {
      resolve: async (name) => {
        names.push(name);
        return [{ address: "127.0.0.1", family: 4 }];
      },
    });
    const hosts = [`a.test.example:${first.port}`, `b.test:${target.port}`];
    expect((await get(`http://a.test.example:${first.port}/`, { network, hosts })).bytes).toEqual(BYTES);
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
    ["http://", "image_redirect_refused"],
    [undefined, "image_redirect_refused"],
  ])("to %s is refused", async (location, code) => {
    const inner = await site((_request, response) => response.end("secret"));
    const first = await site((_request, response) => {
      const target = location?.replace("PORT", String(inner.port)).replace("FIRST", String(first.port));
      response.writeHead(302, target === undefined ? {} : { location: target }).end();
    });
    const network = networkOf([first.port, inner.port]);
    expect((await refusal(`http://pictures.test:${first.port}/`, { network })).code).toBe(code);
    expect([first.requests.length, inner.requests.length]).toEqual([1, 0]);
  });
});

describe("https", () => {
  const certificate = certificateFor("pictures.test");
  const trusted = { certificateAuthorities: certificate.cert };

  test("names the host of the URL, whatever address is connected to", async () => {
    const { port, requests } = await site((_request, response) => response.end(BYTES), { certificate });
    const network = networkOf([port], trusted);
    expect((await get(`https://pictures.test:${port}/`, { network })).bytes).toEqual(BYTES);
    expect(requests[0]?.socket).toHaveProperty("servername", "pictures.test");
  });

  test("a certificate for another name, or of nobody, is refused, whatever the environment says", async () => {
    const { port, requests } = await site((_request, response) => response.end(BYTES), { certificate });
    const before = process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
    try {
      const otherName = await refusal(`https://other.test:${port}/`, { network: networkOf([port], trusted) });
      expect(otherName).toMatchObject({ status: 502, code: "image_fetch_failed" });
      expect(otherName.cause).toMatchObject({ code: "ERR_TLS_CERT_ALTNAME_INVALID" });
      const nobody = await refusal(`https://pictures.test:${port}/`, { network: networkOf([port]) });
      expect(nobody.cause).toMatchObject({ code: "DEPTH_ZERO_SELF_SIGNED_CERT" });
    } finally {
      if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
      else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before;
    }
    expect(requests).toEqual([]);
  });

  test("does not lead back to http", async () => {
    const plain = await site((_request, response) => response.end(BYTES));
    const location = `http://pictures.test:${plain.port}/`;
    const secure = await site((_request, response) => response.writeHead(302, { location }).end(), {
      certificate,
    });
    const error = await refusal(`https://pictures.test:${secure.port}/`, {
      network: networkOf([plain.port, secure.port], trusted),
      hosts: [`pictures.test:${plain.port}`, `pictures.test:${secure.port}`],
    });
    expect(error).toMatchObject({ status: 502, code: "image_redirect_refused" });
    expect(error.message).toContain("from https to http");
    expect(plain.requests).toEqual([]);
  });

  test("is where http may lead", async () => {
    const secure = await site((_request, response) => response.end(BYTES), { certificate });
    const location = `https://pictures.test:${secure.port}/`;
    const plain = await site((_request, response) => response.writeHead(308, { location }).end());
    const fetched = await get(`http://pictures.test:${plain.port}/`, {
      network: networkOf([plain.port, secure.port], trusted),
      hosts: [`pictures.test:${plain.port}`, `pictures.test:${secure.port}`],
    });
    expect(fetched.bytes).toEqual(BYTES);
  });
});
