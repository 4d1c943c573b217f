/** GET /healthz: the process lives. GET /readyz: it can answer, with every Triton and database behind it. */
import { z } from "zod";
import type { Gateway, GatewayApp } from "../context.ts";
import { ApiError } from "../errors.ts";

const health = z.object({ status: z.literal("ok") });

const upstream = z.object({
  name: z.string(),
  ready: z.boolean(),
  reason: z.string().optional().describe("Why it is not ready."),
});
const readiness = z.object({ status: z.literal("ready"), upstreams: z.array(upstream) });
type UpstreamState = z.infer<typeof upstream>;

/** Seconds until a probe makes sense again: about the interval of an orchestrator's own. */
const PROBE_AGAIN_SECONDS = 5;

export function healthRoutes(app: GatewayApp, gateway: Gateway): void {
  app.get(
    "/healthz",
    { schema: { tags: ["health"], summary: "Whether the process lives", response: { 200: health } } },
    () => ({
      status: "ok" as const,
    }),
  );

  const probe = sharedProbe(gateway);
  app.get(
    "/readyz",
    {
      schema: {
        tags: ["health"],
        summary: "Whether every Triton and database behind the gateway is ready",
        description:
          "503 with problem details names those that are away. Also 503 while the gateway is being stopped.",
        response: { 200: readiness },
      },
    },
    async () => {
      if (gateway.isDraining) throw notReady("The gateway is being stopped.", []);
      const upstreams = await probe();
      const away = upstreams.filter(({ ready }) => !ready);
      if (away.length > 0) {
        throw notReady(away.map(({ name, reason }) => `${name}: ${reason}`).join("; "), upstreams);
      }
      return { status: "ready" as const, upstreams };
    },
  );
}

/** Callers that come while a probe runs share it, so that nobody can multiply the load behind the gateway through /readyz. */
function sharedProbe({ catalogue, retrieval }: Gateway): () => Promise<UpstreamState[]> {
  const upstreams = [...catalogue.upstreams, ...(retrieval?.upstreams ?? [])];
  let running: Promise<UpstreamState[]> | undefined;
  return () => {
    running ??= Promise.all(
      upstreams.map(async ({ name, notReady }): Promise<UpstreamState> => {
        const reason = await notReady();
        return reason === undefined ? { name, ready: true } : { name, ready: false, reason };
      }),
    ).finally(() => {
      running = undefined;
    });
    return running;
  };
}

function notReady(message: string, upstreams: readonly UpstreamState[]): ApiError {
  return new ApiError(message, {
    status: 503,
    type: "service_unavailable",
    code: "not_ready",
    retryAfterSeconds: PROBE_AGAIN_SECONDS,
    extensions: { upstreams },
  });
}
