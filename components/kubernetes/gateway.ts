/** The one door for clients, and the way in from outside where there is one. Cost: 0.25 CPUs and 1 GiB a replica. */
import { CustomResource } from "@pulumi/kubernetes/apiextensions/customResource.js";
import { Ingress } from "@pulumi/kubernetes/networking/v1/ingress.js";
import type * as pulumi from "@pulumi/pulumi";
import type { IngressPlan, RoutePlan } from "../../infra/plan/kubernetes/types.ts";
import { Server, type ServerArgs } from "./server.ts";

interface GatewayArgs extends ServerArgs {
  /** Without either it is reached inside of the cluster only. */
  readonly ingress: IngressPlan | null;
  readonly route: RoutePlan | null;
}

export class Gateway extends Server {
  constructor(name: string, args: GatewayArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:kubernetes:Gateway", name, args, opts);

    if (args.ingress !== null) this.#createIngress(name, args.ingress, args.namespace);
    if (args.route !== null) this.#createRoute(name, args.route, args.namespace);
    this.registerOutputs(this.outputs);
  }

  #createRoute(name: string, plan: RoutePlan, namespace: pulumi.Input<string>): CustomResource {
    return new CustomResource(
      `${name}-route`,
      {
        apiVersion: "gateway.networking.k8s.io/v1",
        kind: "HTTPRoute",
        metadata: { name: plan.name, namespace, labels: { ...plan.labels } },
        spec: {
          parentRefs: [
            {
              name: plan.gateway,
              namespace: plan.gatewayNamespace,
              ...(plan.listener === null ? {} : { sectionName: plan.listener }),
            },
          ],
          hostnames: [plan.host],
          rules: [
            {
              matches: [{ path: { type: "PathPrefix", value: "/" } }],
              timeouts: { request: `${plan.requestSeconds}s` },
              backendRefs: [{ name: plan.service, port: plan.port }],
            },
          ],
        },
      },
      { parent: this, dependsOn: [this.service] },
    );
  }

  #createIngress(name: string, plan: IngressPlan, namespace: pulumi.Input<string>): Ingress {
    return new Ingress(
      `${name}-ingress`,
      {
        metadata: {
          name: plan.name,
          namespace,
          labels: { ...plan.labels },
          // Not every controller writes an address into it, which the provider would wait for.
          annotations: { ...plan.annotations, "pulumi.com/skipAwait": "true" },
        },
        spec: {
          ...(plan.className === null ? {} : { ingressClassName: plan.className }),
          ...(plan.tlsSecret === null ? {} : { tls: [{ hosts: [plan.host], secretName: plan.tlsSecret }] }),
          rules: [
            {
              host: plan.host,
              http: {
                paths: [
                  {
                    path: "/",
                    pathType: "Prefix",
                    backend: { service: { name: plan.service, port: { number: plan.port } } },
                  },
                ],
              },
            },
          ],
        },
      },
      { parent: this, dependsOn: [this.service] },
    );
  }
}
