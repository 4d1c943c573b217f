import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { highestRelease, proxyOf } from "../../../scripts/catalogue/module-zip.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { COMMERCIAL, GOVERNMENT } from "./price-fixture.ts";
import { makeZip } from "./zip-fixture.ts";

const MODULE = "github.com/aws/karpenter-provider-aws";
const FOLDER = "pkg/providers/pricing";

describe("the module proxy", () => {
  it("is the first web address of GOPROXY, or Google's", () => {
    expect(proxyOf(undefined)).toBe("https://proxy.golang.org");
    expect(proxyOf("direct")).toBe("https://proxy.golang.org");
    expect(proxyOf("off|https://a.example/,https://b.example")).toBe("https://a.example");
  });

  it("lists versions, of which the highest release is the latest", () => {
    expect(highestRelease("v1.9.0\nv1.14.1\nv1.15.0-rc.1\nv1.2.0\n")).toBe("v1.14.1");
    expect(highestRelease("v2.0.0-beta\n")).toBeUndefined();
  });
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

  it("writes the newest release's prices, and the same bytes from a folder", async () => {
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

  it("says in one sentence what the proxy lacks", async () => {
    expect(await update("--version", "v9.9.9")).toEqual({
      code: 1,
      stderr: `${proxy}/${MODULE}/@v/v9.9.9.info answers 404 Not Found.\n`,
    });
  });
});
