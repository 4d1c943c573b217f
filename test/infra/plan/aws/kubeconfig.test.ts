import { expect, test } from "vitest";
import { eksKubeconfig } from "../../../../infra/plan/aws/kubeconfig.ts";

const CLUSTER = {
  name: "engine-room-dev",
  region: "us-east-1",
  endpoint: "https://0123.gr7.us-east-1.eks.amazonaws.com",
  certificateAuthority: "Q0E=",
};

test("names the cluster, and the program that logs in: nothing of it is secret", () => {
  const config: unknown = JSON.parse(eksKubeconfig(CLUSTER));
  expect(config).toMatchObject({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "engine-room-dev",
    clusters: [
      {
        name: "engine-room-dev",
        cluster: { server: CLUSTER.endpoint, "certificate-authority-data": CLUSTER.certificateAuthority },
      },
    ],
    contexts: [{ name: "engine-room-dev", context: { cluster: "engine-room-dev", user: "engine-room-dev" } }],
  });
  const [{ user }] = (config as { users: [{ user: { exec: { command: string; args: string[] } } }] }).users;
  expect(Object.keys(user)).toEqual(["exec"]);
  expect([user.exec.command, ...user.exec.args].join(" ")).toBe(
    "aws eks get-token --cluster-name engine-room-dev --region us-east-1 --output json",
  );
});
