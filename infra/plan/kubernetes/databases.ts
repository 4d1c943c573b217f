/** Databases that a stack runs in its namespace. */
import {
  DATABASE_PORTS,
  DATABASE_SERVERS,
  DATABASE_START_SECONDS,
  DATABASE_STOP_SECONDS,
} from "../database-servers.ts";
import { DATABASE_REQUEST } from "../pod-requests.ts";
import type { ClusterPlan } from "./cluster-plan.ts";
import { frontPlacement } from "./placement.ts";
import { pod, probes, SCRATCH_TMP, service } from "./pod.ts";
import { priorityClass } from "./priorities.ts";
import { isRetained } from "./retention.ts";
import type { DatabasePlan } from "./types.ts";

/** A small image, a claim that has to be made, and the start. */
const AWAIT_SECONDS = 900;

/** None where they run elsewhere, or the stack has no documents. */
export function databases(stack: string, plan: ClusterPlan): readonly DatabasePlan[] {
  const { databases: planned } = plan.cluster;
  if (planned === null || planned.kind === "external") return [];
  return (["mongo", "vector"] as const).map((name): DatabasePlan => {
    const { image, command, environment, dataPath, userId, check } = DATABASE_SERVERS[planned.kind][name];
    // Neither kind can read the other's files.
    const claimName = `${planned.kind}-data`;
    const made = pod(stack, name, {
      role: name,
      image,
      args: command,
      environment,
      volumes: [
        { name: claimName, path: dataPath, readOnly: false, source: { kind: "ownClaim" } },
        SCRATCH_TMP,
      ],
      ports: ports(name, planned.kind),
      resources: { ...DATABASE_REQUEST, limitsMemory: false, ephemeralGiB: null, gpus: null },
      placement: { ...frontPlacement(plan), spreads: false },
      priorityClass: priorityClass(plan, "front"),
      userId,
      probes: probes(DATABASE_START_SECONDS, { kind: "exec", command: check }),
      graceSeconds: DATABASE_STOP_SECONDS,
    });
    return {
      name,
      pod: made,
      service: service(name, made, true),
      claim: {
        name: claimName,
        storageClass: planned.storageClass,
        sizeGiB: planned.sizeGiB,
        isRetained: isRetained(stack, plan),
      },
      awaitSeconds: AWAIT_SECONDS,
    };
  });
}

function ports(name: "mongo" | "vector", kind: "mock" | "container"): Readonly<Record<string, number>> {
  if (name === "vector") return { http: DATABASE_PORTS.vector };
  return {
    mongo: DATABASE_PORTS.mongo,
    ...(kind === "mock" ? { metrics: DATABASE_PORTS.mongoMetrics } : {}),
  };
}
