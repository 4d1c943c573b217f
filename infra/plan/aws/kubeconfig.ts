/** How kubectl and Pulumi's Kubernetes provider reach a cluster of EKS. */

interface EksClusterAddress {
  readonly name: string;
  readonly region: string;
  /** URL of the API server. */
  readonly endpoint: string;
  /** PEM, in base 64, as EKS gives it. */
  readonly certificateAuthority: string;
}

/**
 * A kubeconfig, as JSON, which is YAML too. It holds no credential: who uses it asks AWS for one by the AWS CLI, as himself.
 *
 * Source: https://docs.aws.amazon.com/eks/latest/userguide/create-kubeconfig.html
 */
export function eksKubeconfig({ name, region, endpoint, certificateAuthority }: EksClusterAddress): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": name,
    clusters: [{ name, cluster: { server: endpoint, "certificate-authority-data": certificateAuthority } }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    users: [
      {
        name,
        user: {
          exec: {
            apiVersion: "client.authentication.k8s.io/v1beta1",
            command: "aws",
            args: ["eks", "get-token", "--cluster-name", name, "--region", region, "--output", "json"],
            interactiveMode: "Never",
          },
        },
      },
    ],
  });
}
