/** Access to the gateway from outside of the cluster, by an Ingress or through a Gateway of the Gateway API. */
import type { ClusterPlan } from "../stack-plan.ts";
import { objectLabels } from "./labels.ts";
import type { CustomObject, Ingress } from "./types.ts";

/** Name of the gateway's Deployment and Service. */
export const GATEWAY = "gateway";

/** null: clients are in the cluster, or come through a Gateway. */
export function gatewayIngress(stack: string, { cluster, gateway }: ClusterPlan): Ingress | null {
  const { ingress } = cluster;
  if (ingress === null || ingress.route !== null) return null;
  const { host, className, tlsSecret, issuer } = ingress;
  const { requestSeconds, bodyMiB } = gateway.limits;
  return {
    metadata: {
      name: GATEWAY,
      labels: objectLabels(stack, { role: "gateway" }),
      annotations: {
        // https://cert-manager.io/docs/usage/ingress/#supported-annotations
        ...(issuer === null
          ? {}
          : { [`cert-manager.io/${issuer.isClusters ? "cluster-issuer" : "issuer"}`]: issuer.name }),
        // ingress-nginx alone reads these; by default it buffers answers and ends them after a minute.
        "nginx.ingress.kubernetes.io/proxy-body-size": `${bodyMiB}m`,
        "nginx.ingress.kubernetes.io/proxy-buffering": "off",
        "nginx.ingress.kubernetes.io/proxy-read-timeout": String(requestSeconds),
        // Not every controller writes an address into it, which the provider would wait for.
        "pulumi.com/skipAwait": "true",
      },
    },
    spec: {
      ingressClassName: className ?? undefined,
      tls: tlsSecret === null ? undefined : [{ hosts: [host], secretName: tlsSecret }],
      rules: [
        {
          host,
          http: {
            paths: [
              {
                path: "/",
                pathType: "Prefix",
                backend: { service: { name: GATEWAY, port: { number: gateway.port } } },
              },
            ],
          },
        },
      ],
    },
  };
}

/** null: there is an Ingress, or clients are in the cluster. */
export function gatewayRoute(stack: string, { cluster, gateway }: ClusterPlan): CustomObject | null {
  const { ingress } = cluster;
  if (ingress === null || ingress.route === null) return null;
  const { gateway: name, namespace, listener } = ingress.route;
  return {
    apiVersion: "gateway.networking.k8s.io/v1",
    kind: "HTTPRoute",
    metadata: { name: GATEWAY, labels: objectLabels(stack, { role: "gateway" }) },
    spec: {
      // Without a section name, every listener that takes the host.
      parentRefs: [{ name, namespace, sectionName: listener ?? undefined }],
      hostnames: [ingress.host],
      rules: [
        {
          matches: [{ path: { type: "PathPrefix", value: "/" } }],
          timeouts: { request: `${gateway.limits.requestSeconds}s` },
          backendRefs: [{ name: GATEWAY, port: gateway.port }],
        },
      ],
    },
  };
}
