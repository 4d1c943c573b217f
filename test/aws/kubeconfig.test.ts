/** The kubeconfig of a stack's cluster, and the token that AWS's own CLI makes for it. */
import { execFile } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { DescribeClusterCommand } from "@aws-sdk/client-eks";
import { beforeAll, beforeEach, expect, test, vi } from "vitest";
import { useStackCluster } from "../../scripts/aws/kubeconfig.ts";
import { ask } from "../../scripts/aws/session.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { MOTO_ACCOUNT } from "../harness/aws/moto.ts";
import { eksClient, makeCluster } from "../harness/aws/resources.ts";
import { useAwsCli, useMoto, wrongRows } from "../harness/aws/use-moto.ts";

vi.mock("../../scripts/aws/session.ts", { spy: true });

const REGION = "us-west-2";
const CLUSTER = "engine-room-dev";
const PROGRAM_TIMEOUT_MILLISECONDS = 60_000;
const context = { region: REGION, name: CLUSTER, stack: "dev" };
const moto = useMoto(REGION);
beforeAll(() => useAwsCli(moto));
beforeEach(() => {
  process.env.KUBECONFIG = "/home/me/.kube/config";
});

interface Kubeconfig {
  readonly clusters: readonly [{ readonly cluster: Readonly<Record<string, string>> }];
  readonly users: readonly [
    { readonly user: { readonly exec: { readonly command: string; readonly args: readonly string[] } } },
  ];
}

async function usedKubeconfig(): Promise<Kubeconfig> {
  await useStackCluster(context as Parameters<typeof useStackCluster>[0]);
  return JSON.parse(readFileSync(process.env.KUBECONFIG ?? "", "utf8")) as Kubeconfig;
}

test("is a file of its own, which others can't read, with the cluster's address and certificate", async () => {
  await makeCluster(REGION, CLUSTER);
  const { cluster } = await eksClient(REGION).send(new DescribeClusterCommand({ name: CLUSTER }));
  const { clusters } = await usedKubeconfig();
  expect(clusters[0].cluster).toEqual({
    server: cluster?.endpoint,
    "certificate-authority-data": cluster?.certificateAuthority?.data,
  });
  expect(clusters[0].cluster.server).toMatch(/^https:\/\//);
  expect(process.env.KUBECONFIG).not.toBe("/home/me/.kube/config");
  expect(statSync(process.env.KUBECONFIG ?? "").mode & 0o777).toBe(0o600);
});

test("lets AWS's CLI make a token, by which STS knows who asks for which cluster", async () => {
  await makeCluster(REGION, CLUSTER);
  const [{ user }] = (await usedKubeconfig()).users;
  const { stdout } = await promisify(execFile)(user.exec.command, [...user.exec.args], {
    timeout: PROGRAM_TIMEOUT_MILLISECONDS,
  });
  const { status } = JSON.parse(stdout) as { readonly status: { readonly token: string } };
  // As EKS reads it: https://github.com/kubernetes-sigs/aws-iam-authenticator#api-authorization-from-outside-a-cluster
  const presigned = new URL(
    Buffer.from(status.token.slice("k8s-aws-v1.".length), "base64url").toString("utf8"),
  );
  expect(presigned.searchParams.get("X-Amz-SignedHeaders")).toContain("x-k8s-aws-id");
  // moto knows by this header alone which service is asked, and checks no signature.
  const authorization = `AWS4-HMAC-SHA256 Credential=${presigned.searchParams.get("X-Amz-Credential")}`;
  const answer = await fetch(presigned, { headers: { "x-k8s-aws-id": CLUSTER, authorization } });
  expect(await answer.text()).toContain(`<Account>${MOTO_ACCOUNT}</Account>`);
});

test("is gone with the command that used it", async () => {
  await makeCluster(REGION, CLUSTER);
  const module = pathToFileURL(join(projectRoot, "scripts/aws/kubeconfig.ts")).href;
  const program = `
    import { useStackCluster } from ${JSON.stringify(module)};
    await useStackCluster(${JSON.stringify(context)});
    process.stdout.write(process.env.KUBECONFIG);`;
  const argv = ["--import", "tsx", "--input-type=module", "--eval", program];
  const { stdout: file } = await promisify(execFile)(process.execPath, argv, {
    cwd: projectRoot,
    timeout: PROGRAM_TIMEOUT_MILLISECONDS,
  });
  expect(file).toMatch(/engine-room-kubeconfig-/);
  expect(existsSync(file)).toBe(false);
});

test("of a cluster that is not there: a sentence with the command that makes it, and the user's own stays", async () => {
  await makeCluster(REGION, "another");
  await expect(usedKubeconfig()).rejects.toThrow(
    "There is no cluster engine-room-dev in us-west-2; `npm run up -- --stack dev` makes it.",
  );
  expect(process.env.KUBECONFIG).toBe("/home/me/.kube/config");
});

test("moto has answered what the table of operations says", () => {
  expect(wrongRows(vi.mocked(ask), "kubeconfig")).toEqual([]);
});
