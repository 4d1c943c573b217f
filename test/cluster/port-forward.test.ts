/** How ports of Services are forwarded by kubectl itself, through the API server, and what is told where they are not. */
import { createServer, type Server } from "node:http";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import {
  forwardCommands,
  type ServiceForward,
  serviceFailure,
} from "../../scripts/connect/cluster-forwards.ts";
import { startPortForwards } from "../../scripts/connect/port-forwarder.ts";
import { freePorts } from "../harness/docker/ports.ts";
import { POD_PORT } from "../harness/kubernetes/cluster.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { hasKubectl } from "../harness/kubernetes/kubectl.ts";
import { addNamespace, removeNamespace, restrictedNamespace } from "../harness/kubernetes/scenes.ts";
import { eventually } from "../harness/stack.ts";

const NAMESPACE = "port-forward";
const TIMEOUT_SECONDS = 60;

describeWithCluster(
  "kubectl port-forward",
  ({ api, connection }) => {
    let server: Server;
    let localPort: number;
    let forwards: readonly ServiceForward[];
    const lines: string[] = [];
    const labels = { app: "gateway" };
    const pod = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "gateway", namespace: NAMESPACE, labels },
      spec: {
        nodeName: "forwarding",
        securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: "RuntimeDefault" } },
        containers: [
          {
            name: "main",
            image: "registry.example.org/gateway:1",
            ports: [{ name: "http", containerPort: POD_PORT }],
            securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
          },
        ],
      },
    };
    const node = {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: "forwarding" },
      status: { allocatable: { cpu: "4", memory: "8Gi", pods: "10" } },
    };

    beforeAll(async () => {
      server = createServer((request, response) => response.end(`answer of ${request.url}`));
      await listen();
      await addNamespace(api, restrictedNamespace(NAMESPACE));
      await api.create(node);
      await api.create({
        apiVersion: "v1",
        kind: "Service",
        metadata: { name: "gateway", namespace: NAMESPACE },
        spec: { selector: labels, ports: [{ name: "http", port: 80, targetPort: "http" }] },
      });
      await api.create(pod);
      await eventually(async () => {
        const { status } = ((await api.get(pod)) ?? {}) as { readonly status?: { readonly phase?: string } };
        return status?.phase === "Running" ? true : undefined;
      }, TIMEOUT_SECONDS);
    });
    afterAll(async () => {
      await removeNamespace(api, NAMESPACE);
      await api.remove(node);
      server.closeAllConnections();
      server.close();
    });

    beforeEach(async () => {
      vi.stubEnv("KUBECONFIG", connection.kubeconfig);
      [localPort = 0] = await freePorts(1);
      forwards = [forward("gateway")];
      lines.length = 0;
    });
    afterEach(() => vi.unstubAllEnvs());

    const forward = (service: string): ServiceForward => ({
      name: "gateway",
      address: `http://${service}.${NAMESPACE}.svc:80`,
      service,
      namespace: NAMESPACE,
      port: 80,
      localPort,
      localAddress: `http://127.0.0.1:${localPort}`,
    });
    const start = (context: string | null = null, all = forwards) =>
      startPortForwards(forwardCommands(context, all), (line) => lines.push(line), serviceFailure(context));
    const ask = () =>
      fetch(`http://127.0.0.1:${localPort}/ready`, { headers: { connection: "close" } }).then(
        (response) => response.text(),
        () => undefined,
      );
    const listen = () =>
      new Promise<void>((resolve) => server.listen(connection.podPort, "127.0.0.1", resolve));

    test("a Service that is not there is an error in kubectl's words", async () => {
      await expect(start(null, [forward("elsewhere")])).rejects.toThrow(
        /^The Service elsewhere can't be forwarded: .*services "elsewhere" not found\n/,
      );
    });

    test("a context that the kubeconfig lacks is told", async () => {
      await expect(start("elsewhere")).rejects.toThrow(/context/);
    });

    test("a cluster without an API server is told", async () => {
      vi.stubEnv("KUBECONFIG", "/dev/null");
      await expect(start()).rejects.toThrow(
        /^No API server answers for the cluster of the current context\. .*refused/,
      );
    });

    test("a Service leads to a port of its pod, and does again after that refused a connection", async () => {
      const forwarder = await start();
      try {
        expect(await ask()).toBe("answer of /ready");
        await new Promise((resolve) => server.close(resolve));
        expect(await ask()).toBeUndefined();
        await listen();
        await eventually(async () => (await ask()) ?? undefined, TIMEOUT_SECONDS);
        expect(lines).toEqual([
          expect.stringMatching(
            /^gateway: .*(lost connection to pod|error forwarding port|connection refused).*; again in 1 s\.$/,
          ),
          "gateway: forwarded again.",
        ]);
      } finally {
        await forwarder.stop();
      }
      expect(await ask()).toBeUndefined();
    });
  },
  hasKubectl() ? undefined : "no kubectl on PATH",
);
