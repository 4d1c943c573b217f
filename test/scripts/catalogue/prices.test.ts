import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseGoPrices, renderPriceData } from "../../../scripts/catalogue/go-prices.ts";
import { highestRelease, proxyOf } from "../../../scripts/catalogue/module-zip.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { readZipEntry } from "../../../scripts/zip-entry.ts";
import { COMMERCIAL, GOVERNMENT } from "./price-fixture.ts";
import { makeZip } from "./zip-fixture.ts";

const MODULE = "github.com/aws/karpenter-provider-aws";

const FOLDER = "pkg/providers/pricing";

test("the module proxy is the first web address of GOPROXY, or Google's", () => {
  expect(proxyOf(undefined)).toBe("https://proxy.golang.org");
  expect(proxyOf("direct")).toBe("https://proxy.golang.org");
  expect(proxyOf("off|https://a.example/,https://b.example")).toBe("https://a.example");
});

test("the latest release is the highest version that is not a pre-release", () => {
  expect(highestRelease("v1.9.0\nv1.14.1\nv1.15.0-rc.1\nv1.2.0\n")).toBe("v1.14.1");
  expect(highestRelease("v2.0.0-beta\n")).toBeUndefined();
});

describe("update-prices", () => {
  const directory = mkdtempSync(join(tmpdir(), "update-prices-"));
  const output = join(directory, "prices-data.ts");
  let server: Server;
  let proxy: string;

  beforeAll(async () => {
    const zip = makeZip([
      {
        name: `${MODULE}@v1.14.1/${FOLDER}/zz_generated.pricing_aws.go`,
        content: COMMERCIAL,
        deflated: true,
      },
      {
        name: `${MODULE}@v1.14.1/${FOLDER}/zz_generated.pricing_aws_us_gov.go`,
        content: GOVERNMENT,
        deflated: true,
      },
    ]);
    const answers: Readonly<Record<string, string | Buffer>> = {
      [`/${MODULE}/@v/list`]: "v1.9.0\nv1.14.1\n",
      [`/${MODULE}/@v/v1.14.1.info`]: '{"Version":"v1.14.1"}',
      [`/${MODULE}/@v/v1.14.1.zip`]: zip,
    };
    server = createServer((request, response) => {
      const body = answers[request.url ?? ""];
      response.writeHead(body === undefined ? 404 : 200).end(body);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    proxy = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });

  afterAll(async () => {
    await new Promise((resolve) => server.close(resolve));
    rmSync(directory, { recursive: true });
  });

  async function update(...args: string[]): Promise<{ code: number | null; stderr: string }> {
    const child = spawn(
      process.execPath,
      ["--import", "tsx", "scripts/catalogue/update-prices.ts", "--output", output, ...args],
      { cwd: projectRoot, env: { ...process.env, GOPROXY: proxy }, stdio: ["ignore", "ignore", "pipe"] },
    );
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
      stderr += chunk;
    });
    const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
    return { code, stderr };
  }

  test("`update-prices` writes the newest release's prices, and the same bytes from a folder", async () => {
    expect(await update()).toEqual({ code: 0, stderr: "" });
    const fromProxy = readFileSync(output, "utf8");
    expect(fromProxy).toContain(`the Go module ${MODULE}@v1.14.1.`);
    expect(fromProxy).toContain('"g5.xlarge": 1.006,');

    const pricing = join(directory, "checkout", FOLDER);
    mkdirSync(pricing, { recursive: true });
    writeFileSync(join(pricing, "zz_generated.pricing_aws.go"), COMMERCIAL);
    writeFileSync(join(pricing, "zz_generated.pricing_aws_us_gov.go"), GOVERNMENT);
    rmSync(output);
    expect(await update("--path", join(directory, "checkout"), "--version", "v1.14.1")).toEqual({
      code: 0,
      stderr: "",
    });
    expect(readFileSync(output, "utf8")).toBe(fromProxy);
  });

  test("`update-prices` reports a version that the proxy lacks", async () => {
    expect(await update("--version", "v9.9.9")).toEqual({
      code: 1,
      stderr: `${proxy}/${MODULE}/@v/v9.9.9.info answers 404 Not Found.\n`,
    });
  });
});

test("the day and every price of every region are read", () => {
  const { asOf, regions } = parseGoPrices(COMMERCIAL, "aws.go");
  expect(asOf).toBe("2026-07-06");
  expect([...regions].map(([region, prices]) => [region, Object.fromEntries(prices)])).toEqual([
    [
      "us-east-1",
      { "g5.12xlarge": 5.672, "g5.xlarge": 1.006, "u-6tb1.56xlarge": 46.40391, "u-6tb1.metal": 54.6 },
    ],
  ]);
  expect([...parseGoPrices(GOVERNMENT, "gov.go").regions.keys()]).toEqual(["us-gov-west-1", "us-gov-east-1"]);
});

test.each([
  ["no date", COMMERCIAL.replace("// generated at", "// made at"), /no line "\/\/ generated at DATE"/],
  ["no region", COMMERCIAL.replace(/^\t"us-east-1": \{.*/ms, ""), /no region/],
  ["a region without prices", COMMERCIAL.replace(/\t\t".*,\n/s, ""), /no price for us-east-1/],
  ["a price outside a region", COMMERCIAL.replace('\t"us-east-1": {\n', ""), /g5.12xlarge outside a region/],
  ["a price twice", COMMERCIAL.replace("g5.12xlarge", "g5.xlarge"), /g5.xlarge twice/],
])("a price file with %s is refused", (_what, source, message) => {
  expect(() => parseGoPrices(source, "aws.go")).toThrow(message);
});

describe("renderPriceData", () => {
  const files = [parseGoPrices(COMMERCIAL, "aws.go"), parseGoPrices(GOVERNMENT, "gov.go")];

  test("prices are written for the asked types in their order for any order of the files", () => {
    const text = renderPriceData("example.com/m@v1.0.0", files, ["g4dn.xlarge", "g5.xlarge", "g5.12xlarge"]);
    expect(text).toContain(
      '  "us-east-1": {\n    asOf: "2026-07-06",\n    hourlyUsd: {\n      "g5.xlarge": 1.006,\n      "g5.12xlarge": 5.672,\n    },\n  },\n' +
        '  "us-gov-east-1": {\n    asOf: "2026-06-15",\n',
    );
    expect(text).toContain("the Go module example.com/m@v1.0.0.");
    expect(text).not.toContain("u-6tb1");
    expect(
      renderPriceData("example.com/m@v1.0.0", files.toReversed(), [
        "g4dn.xlarge",
        "g5.xlarge",
        "g5.12xlarge",
      ]),
    ).toBe(text);
  });
});

describe("readZipEntry", () => {
  const zip = makeZip([
    { name: "m@v1/a.txt", content: "stored", deflated: false },
    { name: "m@v1/b.txt", content: "deflated ".repeat(50), deflated: true },
  ]);

  test("stored and deflated zip entries are read", () => {
    expect(readZipEntry(zip, "m@v1/a.txt").toString()).toBe("stored");
    expect(readZipEntry(zip, "m@v1/b.txt").toString()).toBe("deflated ".repeat(50));
  });

  test("a zip entry that is larger than expected is refused", () => {
    const bomb = makeZip([
      { name: "zeros", content: "\0".repeat(2 ** 20), deflated: true },
      { name: "stored", content: "12345", deflated: false },
    ]);
    expect(bomb.length).toBeLessThan(2 ** 12);
    expect(() => readZipEntry(bomb, "zeros", 2 ** 20 - 1)).toThrow("larger than 1048575 bytes");
    expect(readZipEntry(bomb, "zeros", 2 ** 20).length).toBe(2 ** 20);
    expect(() => readZipEntry(bomb, "stored", 4)).toThrow("larger than 4 bytes");
  });

  test("a damaged zip entry is refused", () => {
    const broken = Buffer.from(zip);
    broken.fill(0xff, zip.indexOf("m@v1/b.txt") + 10, zip.indexOf("m@v1/b.txt") + 20);
    expect(() => readZipEntry(broken, "m@v1/b.txt")).toThrow(/^The archive's m@v1\/b.txt is damaged/);
    const place = zip.lastIndexOf("m@v1/b.txt") - 4;
    const nowhere = Buffer.from(zip);
    nowhere.writeUInt32LE(2 ** 31, place);
    expect(() => readZipEntry(nowhere, "m@v1/b.txt")).toThrow(/place of m@v1\/b.txt is damaged/);
  });

  test("a missing zip entry and a broken archive are reported", () => {
    expect(() => readZipEntry(zip, "m@v1/c.txt")).toThrow("The archive has no m@v1/c.txt.");
    expect(() => readZipEntry(zip.subarray(0, zip.length - 30), "m@v1/a.txt")).toThrow(/no zip file/);
    expect(() => readZipEntry(Buffer.from("404 not found"), "m@v1/a.txt")).toThrow(/no zip file/);
  });
});
