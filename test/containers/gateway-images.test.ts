import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  checkImageUrl,
  isPublicAddress,
  parseImageHost,
} from "../../containers/services/gateway/src/images/fetch-image.ts";
import { DEFAULT_IMAGE_LIMITS, ImageError } from "../../containers/services/gateway/src/images/limits.ts";
import { parseDataUrl } from "../../containers/services/gateway/src/images/source.ts";

const limits = { ...DEFAULT_IMAGE_LIMITS, bytes: 1000 };

const parse = (url: string) => parseDataUrl(url, limits);

const PNG_HEAD = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");

/** Refusal of some work. @throws its other errors, and an Error when it is accepted. */
function refusalOf(work: () => unknown) {
  try {
    work();
  } catch (error) {
    if (!(error instanceof ImageError)) throw error;
    return { message: error.message, status: error.details.status, code: error.details.code };
  }
  throw new Error("it was accepted");
}

const refusal = (url: string) => refusalOf(() => parse(url));

test("a data URL gives back any bytes within the limit", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 1000 }), (bytes) => {
      const parsed = parse(`data:;base64,${Buffer.from(bytes).toString("base64")}`);
      expect(Buffer.compare(parsed, bytes)).toBe(0);
    }),
  );
});

test.each([
  "data:image/png;base64,",
  "DATA:IMAGE/PNG;BASE64,",
  "data:image/png;charset=utf-8;base64,",
  "data:image/jpeg;base64,",
  "data:;base64,",
])("the data URL %s gives its bytes, whatever their declared type", (head) => {
  expect(parse(head + PNG_HEAD.toString("base64"))).toEqual(PNG_HEAD);
});

test.each([
  "data:",
  "data:image/png",
  "data:image/png,abc",
  "data:image/png;base64",
  "data:image/png;base64;x,AAAA",
  `data:image/png;${"a".repeat(300)};base64,AAAA`,
  "data:image/svg+xml;utf8,<svg/>",
  "data:image/svg+xml,%3Csvg%2F%3E",
])("the data URL %s is refused because it is not base64", (url) => {
  expect(refusal(url)).toMatchObject({ status: 400, code: "invalid_data_url" });
});

test.each([
  "AAAA\nAAAA",
  "AA-_",
  "AAAA ",
  "AAAA\n",
  "AA==AAAA",
  "A===",
  "%41AA",
  "AAÄA",
  "AAA",
  "AA=",
  "AAAAA",
])("the base64 text %j is refused", (text) => {
  const error = refusal(`data:;base64,${text}`);
  expect(error).toMatchObject({ status: 400, code: "invalid_data_url" });
  expect(error.message).toContain(`The ${text.length} characters`);
});

test("a data URL that is too large is refused before its text is read", () => {
  const error = refusal(`data:;base64,${"-".repeat(1336)}`);
  expect(error).toMatchObject({ status: 413, code: "image_too_large" });
  expect(error.message).toContain("1002 bytes, and the limit is 1000");
  expect(parse(`data:;base64,${Buffer.alloc(1000).toString("base64")}`)).toHaveLength(1000);
  expect(refusal(`data:;base64,${Buffer.alloc(1001).toString("base64")}`).status).toBe(413);
});

test("a data URL of 20 million characters is read", () => {
  const text = "A".repeat(20_000_000);
  const wide = { ...limits, bytes: 2 ** 30 };
  expect(parseDataUrl(`data:;base64,${text}`, wide)).toHaveLength(15_000_000);
});

describe("URLs of images", () => {
  const hosts = [
    "images.example.org",
    "*.pictures.example.org",
    "files.example.org:8443",
    "secure.example.org:443",
    "bücher.example.org",
  ].map((entry) => parseImageHost(entry) ?? "");

  test.each([
    ["http://images.example.org/a.jpg", true],
    ["https://images.example.org/a.jpg?size=1#x", true],
    ["https://IMAGES.Example.ORG/a.jpg", true],
    ["https://ｉmages.example.org/", true],
    ["https://images.example.org:443/", true],
    ["https://images.example.org:80/", false],
    ["http://images.example.org:443/", false],
    ["http://images.example.org:8080/", false],
    ["http://images.example.org./", false],
    ["http://images.example.org.evil.test/", false],
    ["http://evilimages.example.org/", false],
    ["http://a.images.example.org/", false],
    ["http://example.org/", false],
    ["https://a.pictures.example.org/", true],
    ["https://a.b.pictures.example.org/", true],
    ["https://pictures.example.org/", false],
    ["https://evilpictures.example.org/", false],
    ["https://files.example.org:8443/", true],
    ["http://files.example.org:8443/", true],
    ["https://files.example.org/", false],
    ["https://secure.example.org/", true],
    ["http://secure.example.org/", false],
    ["https://xn--bcher-kva.example.org/", true],
    ["https://BÜCHER.example.org/", true],
    ["https://images.example.org\\@evil.test/", true],
    ["https://evil.test/images.example.org", false],
    ["https://evil.test?images.example.org", false],
    ["https://evil.test#images.example.org", false],
    ["https://evil.test\\.images.example.org/", false],
    ["https://images.ехample.org/", false],
  ])("the list of image hosts allows %s: %s", (url, isAllowed) => {
    if (isAllowed) expect(checkImageUrl(url, hosts)).toBeInstanceOf(URL);
    else expect(refusalOf(() => checkImageUrl(url, hosts)).code).toBe("image_host_not_allowed");
  });

  test("a backslash ends the host name of an image's URL", () => {
    expect(checkImageUrl("https://images.example.org\\@evil.test/", hosts).host).toBe("images.example.org");
  });

  test("an empty list of image hosts allows no URL", () => {
    const error = refusalOf(() => checkImageUrl("https://images.example.org/", []));
    expect(error).toMatchObject({ status: 400, code: "image_host_not_allowed" });
    expect(error.message).toContain("gateway.imageHosts");
  });

  test.each([
    "127.0.0.1",
    "2130706433",
    "0x7f.1",
    "[::1]",
    "::1",
    "localhost",
    "a.localhost",
    "intranet",
    "*",
    "*.org",
    "*.*.example.org",
    "a.*.example.org",
    "images.example.org.",
    "images..example.org",
    "-images.example.org",
    "https://images.example.org",
    "images.example.org/path",
    "user@images.example.org",
    "images.example.org:0",
    "images.example.org:65536",
    "images.example.org:",
    "images example.org",
    "",
    `${"a".repeat(64)}.example.org`,
  ])("the image host %j is refused", (entry) => expect(parseImageHost(entry)).toBeUndefined());

  test.each([
    ["images.example.org", "images.example.org"],
    ["*.Example.org", "*.example.org"],
    ["*.example.org:8080", "*.example.org:8080"],
    ["bücher.example", "xn--bcher-kva.example"],
    ["*.bücher.example:80", "*.xn--bcher-kva.example:80"],
    ["a_b.example.org", "a_b.example.org"],
  ])("the image host %j is accepted", (entry, host) => expect(parseImageHost(entry)).toBe(host));

  test.each([
    "http://127.0.0.1/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0x7f000001/",
    "http://0x7f.0x0.0x0.0x1/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://0/",
    "http://1/",
    "http://①②⑦.⓪.⓪.①/",
    "http://127。0。0。1/",
    "http://%31%32%37.0.0.1/",
    "http://127.0.0.1./",
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/latest/meta-data/",
    "http://0xa9fea9fe/",
    "http://0251.0376.0251.0376/",
    "http://[::1]/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[fd00:ec2::254]/",
    "http://[fe80::1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://localhost/",
    "http://LOCALHOST/",
    "http://localhost./",
    "http://ⓛocalhost/",
    "http://a.localhost/",
    "http://metadata.google.internal/",
    "http://127.0.0.1.nip.io/",
  ])("the URL %s is refused because its host is not allowed", (url) => {
    expect(refusalOf(() => checkImageUrl(url, hosts))).toMatchObject({
      status: 400,
      code: "image_host_not_allowed",
    });
  });

  test.each([
    "",
    "images.example.org/a.jpg",
    "//images.example.org/a.jpg",
    "/etc/passwd",
    "http://",
    "http://[::1%25eth0]/",
    "http://256.0.0.1/",
    "http://1.2.3.4.5/",
    "http://images.example.org:99999/",
    "http://images. example.org/",
    `https://images.example.org/${"a".repeat(8000)}`,
    "file:///etc/passwd",
    "ftp://images.example.org/a.jpg",
    "gopher://images.example.org/",
    "javascript:alert(1)",
    "blob:https://images.example.org/1",
    "about:blank",
    "unix:/run/docker.sock",
    "https://user@images.example.org/",
    "https://user:password@images.example.org/",
    "https://:password@images.example.org/",
  ])("the image URL %j is invalid", (url) => {
    expect(refusalOf(() => checkImageUrl(url, hosts))).toMatchObject({
      status: 400,
      code: "invalid_image_url",
    });
  });

  test("errors about an image's URL show neither its password nor its query", () => {
    for (const url of ["https://user:hunter2@images.example.org/", "https://evil.test/?token=hunter2"]) {
      expect(refusalOf(() => checkImageUrl(url, hosts)).message).not.toContain("hunter2");
    }
  });

  describe("redirects", () => {
    const from = new URL("https://images.example.org/a/b.jpg");

    test.each([
      ["c.jpg", "https://images.example.org/a/c.jpg"],
      ["/c.jpg", "https://images.example.org/c.jpg"],
      ["//x.pictures.example.org/c.jpg", "https://x.pictures.example.org/c.jpg"],
      ["https://files.example.org:8443/c.jpg", "https://files.example.org:8443/c.jpg"],
    ])("a redirect to %s leads to %s", (location, url) =>
      expect(checkImageUrl(location, hosts, from).href).toBe(url),
    );

    test.each([
      [undefined, "invalid_image_url"],
      ["http://", "invalid_image_url"],
      [`/${"a".repeat(8000)}`, "invalid_image_url"],
      ["http://images.example.org/a.jpg", "image_redirect_refused"],
      ["http://169.254.169.254/", "image_host_not_allowed"],
      ["//2130706433/", "image_host_not_allowed"],
      ["https://images.example.org:22/", "image_host_not_allowed"],
      ["file:///etc/passwd", "invalid_image_url"],
      ["data:image/png;base64,AAAA", "invalid_image_url"],
      ["https://user@images.example.org/", "invalid_image_url"],
    ])("a redirect to %s is refused with %s", (location, code) => {
      expect(refusalOf(() => checkImageUrl(location, hosts, from)).code).toBe(code);
    });

    test("a redirect from http to https is accepted", () => {
      expect(
        checkImageUrl("https://images.example.org/", hosts, new URL("http://images.example.org/")).protocol,
      ).toBe("https:");
    });
  });
});

test.each([
  "1.1.1.1",
  "8.8.8.8",
  "93.184.216.34",
  "9.255.255.255",
  "11.0.0.0",
  "100.63.255.255",
  "100.128.0.0",
  "126.255.255.255",
  "128.0.0.0",
  "169.253.255.255",
  "169.255.0.0",
  "172.15.255.255",
  "172.32.0.0",
  "192.167.255.255",
  "192.169.0.0",
  "198.17.255.255",
  "198.20.0.0",
  "223.255.255.255",
  "2606:4700:4700::1111",
  "2001:4860:4860::8888",
  "2001:200::1",
  "2a00:1450:4001:80b::200e",
  "3ffe:ffff::1",
])("the address %s is public", (address) => expect(isPublicAddress(address)).toBe(true));

test.each([
  ["unspecified", "0.0.0.0"],
  ["this network", "0.1.2.3"],
  ["private", "10.0.0.1"],
  ["private, last", "10.255.255.255"],
  ["carrier-grade NAT", "100.64.0.1"],
  ["Alibaba Cloud's metadata", "100.100.100.200"],
  ["loopback", "127.0.0.1"],
  ["loopback, last", "127.255.255.254"],
  ["Azure's platform", "168.63.129.16"],
  ["cloud metadata", "169.254.169.254"],
  ["AWS container credentials", "169.254.170.2"],
  ["link-local", "169.254.0.1"],
  ["private", "172.16.0.1"],
  ["private, last", "172.31.255.255"],
  ["Oracle Cloud's metadata", "192.0.0.192"],
  ["documentation", "192.0.2.1"],
  ["6to4 relay", "192.88.99.1"],
  ["private", "192.168.1.1"],
  ["benchmarks", "198.19.255.255"],
  ["documentation", "198.51.100.7"],
  ["documentation", "203.0.113.7"],
  ["multicast", "224.0.0.1"],
  ["multicast", "239.255.255.250"],
  ["reserved", "240.0.0.1"],
  ["broadcast", "255.255.255.255"],
  ["unspecified", "::"],
  ["loopback", "::1"],
  ["IPv4-compatible", "::127.0.0.1"],
  ["IPv4-compatible, public inside", "::8.8.8.8"],
  ["IPv4-mapped loopback", "::ffff:127.0.0.1"],
  ["IPv4-mapped in hexadecimal", "::ffff:7f00:1"],
  ["IPv4-mapped, written out", "0:0:0:0:0:ffff:a9fe:a9fe"],
  ["IPv4-mapped, public inside", "::ffff:8.8.8.8"],
  ["IPv4-translated", "::ffff:0:10.0.0.1"],
  ["NAT64", "64:ff9b::10.0.0.1"],
  ["NAT64, local", "64:ff9b:1::10.0.0.1"],
  ["discard", "100::1"],
  ["Teredo", "2001::7f00:1"],
  ["benchmarks", "2001:2::1"],
  ["ORCHID", "2001:20::1"],
  ["documentation", "2001:db8::1"],
  ["6to4 of 10.0.0.1", "2002:a00:1::1"],
  ["6to4 of 169.254.169.254", "2002:a9fe:a9fe::"],
  ["documentation", "3fff::1"],
  ["segment routing", "5f00::1"],
  ["unique-local", "fc00::1"],
  ["AWS metadata", "fd00:ec2::254"],
  ["link-local", "fe80::1"],
  ["link-local with a zone", "fe80::1%eth0"],
  ["global with a zone", "2606:4700:4700::1111%eth0"],
  ["site-local", "fec0::1"],
  ["multicast", "ff02::1"],
  ["a name", "localhost"],
  ["decimal", "2130706433"],
  ["short", "127.1"],
  ["hexadecimal", "0x7f.0.0.1"],
  ["nothing", ""],
])("the %s address %j is not public", (_kind, address) => expect(isPublicAddress(address)).toBe(false));

test("an IPv4 address written as IPv6 is not public", () => {
  fc.assert(
    fc.property(
      fc.ipV4(),
      fc.constantFrom("::", "::ffff:", "::ffff:0:", "64:ff9b::", "2001::"),
      (ip, prefix) => {
        expect(isPublicAddress(prefix + ip)).toBe(false);
      },
    ),
  );
});

test("only IPv6 addresses in 2000::/3 can be public", () => {
  fc.assert(
    fc.property(fc.ipV6(), (ip) => {
      const first = Number.parseInt(ip.startsWith(":") ? "0" : (ip.split(":")[0] ?? "0"), 16);
      if (first >> 13 !== 1) expect(isPublicAddress(ip)).toBe(false);
    }),
  );
});
