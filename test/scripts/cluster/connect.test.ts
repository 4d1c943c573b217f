import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { tritonEndpoints } from "../../../infra/plan/endpoints.ts";
import {
  forwardCommands,
  localEndpoints,
  serviceForwards,
} from "../../../scripts/connect/cluster-forwards.ts";
import { type FakeServers, GATEWAY_KEY, startFakeServers } from "../ask/fake-servers.ts";
import { type FakeKubectl, fakeKubectl, watch } from "./fake-kubectl.ts";

const triton = (name: string) =>
  tritonEndpoints(`${name}.models.svc`, { http: 8000, grpc: 8001, metrics: 8002 });
const endpoints = {
  gateway: "http://gateway.models.svc:8080",
  mongo: "mongodb://mongo.models.svc:27017",
  vector: "https://vectors.example.net:6333",
  encoders: null,
  models: {
    llava: { ...triton("llava"), generate: "http://llava.models.svc:8000/v2/models/ensemble/generate" },
    gpt: { ...triton("gpt"), generate: "http://gpt.models.svc:8000/v2/models/ensemble/generate" },
  },
  gatewayReach: "cluster",
  gatewayDnsName: null,
  reach: "cluster",
} as const;

/** Everything is free but what was claimed before. */
function claims() {
  const claimed = new Set<number>();
  return async (wanted: number) => {
    let port = wanted;
    while (claimed.has(port)) port += 10_000;
    claimed.add(port);
    return port;
  };
}

describe("which ports lead where", () => {
  test("the gateway alone, unless more is asked for", async () => {
    const all = await serviceForwards({ endpoints, parts: new Set(), grafana: null }, claims());
    expect(all.map(({ name, localAddress }) => [name, localAddress])).toEqual([
      ["gateway", "http://127.0.0.1:8080"],
    ]);
    expect(forwardCommands(null, all).map(({ argv }) => argv.join(" "))).toEqual([
      "kubectl --namespace models port-forward --address 127.0.0.1 service/gateway 8080:8080",
    ]);
  });

  test("all parts: a command each Service, ports of their own, and nothing for what is elsewhere", async () => {
    const grafana = "http://grafana.monitoring.svc:80";
    const parts = new Set(["triton", "databases", "grafana"] as const);
    const all = await serviceForwards({ endpoints, parts, grafana }, claims());
    expect(forwardCommands("there", all)).toEqual(
      [
        ["models", "gateway", "8080:8080"],
        ["models", "llava", "8000:8000", "8001:8001", "8002:8002"],
        ["models", "gpt", "18000:8000", "18001:8001", "18002:8002"],
        ["models", "mongo", "27017:27017"],
        ["monitoring", "grafana", "80:80"],
      ].map(([namespace = "", service = "", ...pairs]) => ({
        service,
        ports: pairs.length,
        argv: [
          ...["kubectl", "--context", "there", "--namespace", namespace, "port-forward"],
          ...["--address", "127.0.0.1", `service/${service}`, ...pairs],
        ],
      })),
    );
    expect(localEndpoints(endpoints, all)).toEqual({
      ...endpoints,
      gateway: "http://127.0.0.1:8080",
      mongo: "mongodb://127.0.0.1:27017",
      models: {
        llava: {
          ...tritonEndpoints("127.0.0.1", { http: 8000, grpc: 8001, metrics: 8002 }),
          generate: "http://127.0.0.1:8000/v2/models/ensemble/generate",
        },
        gpt: {
          ...tritonEndpoints("127.0.0.1", { http: 18000, grpc: 18001, metrics: 18002 }),
          generate: "http://127.0.0.1:18000/v2/models/ensemble/generate",
        },
      },
    });
  });
});

describe("with a kubectl", () => {
  let kubectl: FakeKubectl;
  let servers: FakeServers;
  beforeEach(async () => {
    kubectl = fakeKubectl();
    servers = await startFakeServers();
    kubectl.targets({ "engine-room/gateway:8080": Number(new URL(servers.url).port) });
  });
  afterEach(async () => {
    kubectl.remove();
    await servers.close();
  });

  const isAlive = (pid: number) => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };

  test("connect leads to the gateway, comes back when a pod was lost, and leaves nothing after Ctrl-C", async () => {
    const child = kubectl.run("connect");
    const output = watch(child);
    await output.saw(/Ctrl-C ends it/);
    const url = /gateway +(http:\/\/127\.0\.0\.1:\d+)/.exec(output.text())?.[1] ?? expect.fail(output.text());
    const answer = () =>
      fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        body: "{}",
        headers: { authorization: `Bearer ${GATEWAY_KEY}`, connection: "close" },
      }).then(({ status }) => status);
    expect(await answer()).toBe(200);

    process.kill(kubectl.pids("gateway")[0] ?? expect.fail("no forward was started"), "SIGKILL");
    await output.saw(/gateway: forwarded again/);
    expect(await answer()).toBe(200);

    child.kill("SIGINT");
    expect(await output.code).toBe(0);
    expect(kubectl.pids("gateway")).toHaveLength(2);
    expect(kubectl.pids("gateway").filter(isAlive)).toEqual([]);
  });

  test("ask forwards the gateway by itself, and ends that", async () => {
    const output = watch(kubectl.run("ask", "--text", "What is the capital of France?"));
    await output.code;
    expect(servers.asked.map(({ path }) => path)).toEqual(["/v1/chat/completions"]);
    expect(kubectl.pids("gateway")).toHaveLength(1);
    expect(kubectl.pids("gateway").filter(isAlive)).toEqual([]);
  });

  test("a Service that is not there is an error with kubectl's words", async () => {
    kubectl.targets({});
    const output = watch(kubectl.run("connect"));
    expect(await output.code).toBe(1);
    expect(output.text()).toMatch(/^The Service gateway can't be forwarded: .*NotFound.*"gateway"/);
  });

  test.each([
    ["connect"],
    ["smoke"],
    ["ask", "What is the capital of France?"],
    ["status"],
    ["bench", "--model", "llava"],
  ])(
    "%s in a cluster without an API server is told in the same words, and in no others",
    async (...words) => {
      kubectl.says(
        words[0] === "bench"
          ? 'error: error validating "STDIN": error validating data: failed to download openapi: Get "http://localhost:8080/openapi/v2?timeout=20s": dial tcp [::1]:8080: connect: connection refused; if you choose to ignore these errors, turn validation off with --validate=false'
          : "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
      );
      const output = watch(kubectl.run(...words));
      expect(await output.code).toBe(1);
      expect(output.text()).toMatch(
        /^No API server answers for the cluster of the context fake\. .*refused.*\nTry `kubectl version`; .*\n$/,
      );
      expect(output.text()).not.toContain("validation off");
    },
  );

  test("another part than there is", async () => {
    const output = watch(kubectl.run("connect", "everything"));
    expect(await output.code).toBe(2);
    expect(output.text()).toContain("triton, databases, grafana");
  });
});
