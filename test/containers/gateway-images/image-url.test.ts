import { describe, expect, test } from "vitest";
import { ImageError } from "../../../containers/services/gateway/src/images/image-error.ts";
import { ImageHosts, imageHostProblem } from "../../../containers/services/gateway/src/images/image-hosts.ts";
import { checkImageUrl, checkRedirect } from "../../../containers/services/gateway/src/images/image-url.ts";

const hosts = new ImageHosts([
  "images.example.org",
  "*.pictures.example.org",
  "files.example.org:8443",
  "secure.example.org:443",
  "bücher.example.org",
]);

function refusal(work: () => unknown): ImageError {
  try {
    work();
  } catch (error) {
    if (error instanceof ImageError) return error;
    throw error;
  }
  throw new Error("it was taken");
}

describe("imageHosts", () => {
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
  ])("%s: %s", (url, isAllowed) => {
    if (isAllowed) expect(checkImageUrl(url, hosts)).toBeInstanceOf(URL);
    else expect(refusal(() => checkImageUrl(url, hosts)).code).toBe("image_host_not_allowed");
  });

  test("a backslash ends the host, as it does for what connects", () => {
    expect(checkImageUrl("https://images.example.org\\@evil.test/", hosts).host).toBe("images.example.org");
  });

  test("an empty list allows nothing", () => {
    const error = refusal(() => checkImageUrl("https://images.example.org/", new ImageHosts([])));
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
  ])("the entry %j is refused", (entry) => {
    expect(imageHostProblem(entry)).toMatch(/^(is|has) /);
    expect(() => new ImageHosts([entry])).toThrow(JSON.stringify(entry));
  });

  test.each([
    "images.example.org",
    "*.example.org",
    "*.example.org:8080",
    "bücher.example",
    "a_b.example.org",
  ])("the entry %j is taken", (entry) => expect(imageHostProblem(entry)).toBeUndefined());
});

describe("URLs", () => {
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
  ])("%s leads to no host of the list", (url) => {
    expect(refusal(() => checkImageUrl(url, hosts))).toMatchObject({
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
  ])("%j is no URL of an image", (url) => {
    expect(refusal(() => checkImageUrl(url, hosts))).toMatchObject({
      status: 400,
      code: "invalid_image_url",
    });
  });

  test("neither password nor query is repeated in a message", () => {
    for (const url of ["https://user:hunter2@images.example.org/", "https://evil.test/?token=hunter2"]) {
      expect(refusal(() => checkImageUrl(url, hosts)).message).not.toContain("hunter2");
    }
  });
});

describe("redirects", () => {
  const from = new URL("https://images.example.org/a/b.jpg");

  test.each([
    ["c.jpg", "https://images.example.org/a/c.jpg"],
    ["/c.jpg", "https://images.example.org/c.jpg"],
    ["//x.pictures.example.org/c.jpg", "https://x.pictures.example.org/c.jpg"],
    ["https://files.example.org:8443/c.jpg", "https://files.example.org:8443/c.jpg"],
  ])("%s leads to %s", (location, url) => expect(checkRedirect(location, from, hosts).href).toBe(url));

  test.each([
    [undefined, "image_redirect_refused"],
    ["http://", "image_redirect_refused"],
    [`/${"a".repeat(8000)}`, "image_redirect_refused"],
    ["http://images.example.org/a.jpg", "image_redirect_refused"],
    ["http://169.254.169.254/", "image_host_not_allowed"],
    ["//2130706433/", "image_host_not_allowed"],
    ["https://images.example.org:22/", "image_host_not_allowed"],
    ["file:///etc/passwd", "invalid_image_url"],
    ["data:image/png;base64,AAAA", "invalid_image_url"],
    ["https://user@images.example.org/", "invalid_image_url"],
  ])("%s is refused with %s", (location, code) => {
    expect(refusal(() => checkRedirect(location, from, hosts)).code).toBe(code);
  });

  test("http to https is an improvement", () => {
    expect(
      checkRedirect("https://images.example.org/", new URL("http://images.example.org/"), hosts).protocol,
    ).toBe("https:");
  });
});
