/** The official clients' own tests against the services: each passes, or is refused with the recorded error. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { runCommand } from "../../../components/local/provider/commands.ts";
import { lockedPython } from "../../../scripts/testing/python.ts";
import { freePort } from "../../harness/ports.ts";
import { tell } from "../../harness/progress.ts";
import { needs } from "../../harness/requirements.ts";
import { AT_NIGHT } from "../../harness/thorough.ts";
import { pythonMissing } from "../databases.ts";
import { IMAGE_DIMENSION, startFakeTriton, TEXT_DIMENSION } from "../gateway-retrieval/fake-triton.ts";
import { startMongo } from "../mock-mongo/support.ts";
import { startVector } from "../mock-vector/support.ts";
import { type ServiceProcess, startService, temporaryFolder, urlIn } from "../service-process.ts";
import { unpacked } from "./sources.ts";
import { count, differences, judge, type Outcome } from "./suite-results.ts";
import { OPENAI, PYMONGO, QDRANT_CLIENT, type Suite } from "./suites.ts";

const minutes = (count: number) => count * 60_000;

/** Time limit of a test. */
const HANG_SECONDS = 60;
/** Time limit of a suite, for a hang that Python does not notice. */
const SUITE_SECONDS = 25 * 60;

/** A suite's server. */
interface Server {
  readonly service: ServiceProcess;
  readonly port: number;
  end?(): Promise<void>;
}

async function vector(data: string): Promise<Server> {
  const { service, url } = await startVector(data);
  return { service, port: Number(new URL(url).port) };
}

/** Starts a gateway with fake models under the suite's names. */
async function gateway(folder: string): Promise<Server> {
  const triton = await startFakeTriton();
  const file = join(folder, "gateway.json");
  const config = {
    encoders: {
      http: triton.url,
      modelName: "text-embedding-3-small",
      dimension: TEXT_DIMENSION,
      imageDimension: IMAGE_DIMENSION,
      maxBatchSize: 8,
    },
    models: ["gpt-6-astra", "gpt-3.5-turbo-instruct"].map((name) => ({
      name,
      http: triton.url,
      chatTemplate: "{% for message in messages %}{{ message.content }}{% endfor %}",
    })),
  };
  writeFileSync(file, JSON.stringify(config));
  const service = startService("gateway", ["--config", file, "--port", "0"]);
  const port = Number(new URL(urlIn(await service.listening())).port);
  return { service, port, end: () => triton.close() };
}

/** Runs a suite's tests, and compares their outcome with the recorded outcome. */
async function check(suite: Suite, tests: string, start: (folder: string) => Promise<Server>): Promise<void> {
  const folder = temporaryFolder("clients");
  const server = await start(folder.path);
  try {
    const judgement = judge(await runTests(suite, tests, server.port, folder.path), suite.refusal);
    tell(`${suite.client} ${suite.version}: ${count(judgement.outcome)}`);
    compare(suite, judgement);
    expect(await server.service.kill("SIGTERM"), "exit code of the server").toBe(0);
    expect(server.service.output.stderr).toBe("");
  } finally {
    await server.service.kill("SIGKILL");
    await server.end?.();
    folder.remove();
  }
}

/** @param tests - Folder of the tests. @param folder - For the log. @returns The log of pytest-reportlog. */
async function runTests(suite: Suite, tests: string, port: number, folder: string): Promise<string> {
  const python = await lockedPython([join(import.meta.dirname, "requirements.lock")], () => undefined);
  const log = join(folder, "log.jsonl");
  const place = ["--config-file=/dev/null", `--rootdir=${tests}`, "-pno:cacheprovider", "-pplugin"];
  const limits = [`--timeout=${HANG_SECONDS}`, "--timeout-method=signal"];
  const leftOut = Object.values(suite.leftOut).flatMap((names) => names.map((name) => `--deselect=${name}`));
  const { exitCode, stdout, stderr } = await runCommand(
    [
      ...[python, "-m", "pytest", "--quiet", `--report-log=${log}`],
      ...[...place, ...limits, ...suite.options, ...leftOut, ...suite.files],
    ],
    {
      cwd: tests,
      timeoutSeconds: SUITE_SECONDS,
      environment: {
        ...process.env,
        ...suite.environment(port),
        PYTHONDONTWRITEBYTECODE: "1",
        // Folder of `plugin`.
        PYTHONPATH: import.meta.dirname,
        SUITE: suite.client,
        SUITE_CLOSED_PORT: String(await freePort()),
        SUITE_PORT: String(port),
      },
    },
  );
  expect(existsSync(log), `pytest ended with ${exitCode}: ${stdout}${stderr}`).toBe(true);
  return readFileSync(log, "utf8");
}

/** With UPDATE_RECORDED=1 the outcome is recorded instead; a wrong answer still fails. */
function compare({ client }: Suite, judgement: ReturnType<typeof judge>): void {
  const file = join(import.meta.dirname, "../../recorded/clients", `${client}.json`);
  if (process.env.UPDATE_RECORDED === "1") {
    writeFileSync(file, `${JSON.stringify(judgement.outcome, undefined, 2)}\n`);
  }
  const known = JSON.parse(readFileSync(file, "utf8")) as Outcome;
  expect(differences(known, judgement), "tests that differ from the recorded outcome").toEqual([]);
}

const missing = await pythonMissing();

/** Folder of a suite's tests. */
function testsOf({ client, version, source, folder }: Suite): Promise<string> {
  return unpacked(`${client}-${version}`, source, folder);
}

describe("suites of the official clients", { ...needs(AT_NIGHT ?? missing), timeout: minutes(30) }, () => {
  test("pymongo's own tests pass on the document database or are refused", async () => {
    await check(PYMONGO, await testsOf(PYMONGO), startMongo);
  });

  test("qdrant-client's own tests pass on the vector database or are refused", async ({ skip }) => {
    const tests = await testsOf(QDRANT_CLIENT).catch((error: Error) => {
      // Some machines reach the registries but not GitHub.
      skip(/unable to access/.test(error.message), error.message);
      throw error;
    });
    await check(QDRANT_CLIENT, tests, vector);
  });

  test("openai's own tests pass on the gateway or are refused", async () => {
    await check(OPENAI, await testsOf(OPENAI), gateway);
  });
});
