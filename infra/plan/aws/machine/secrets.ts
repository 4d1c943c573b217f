/** Secrets of a stack on its instance: kept by Secrets Manager, and on the machine in memory only. */
import type { DockerContainer, DockerStack, SecretName } from "../../docker/types.ts";
import type { Ec2Plan } from "../../gpu-stack.ts";
import { HUB_TOKEN_FILE } from "../names.ts";
import type { AwsContext, InstanceSecretPlan } from "../types.ts";
import { SECRET_FOLDER } from "./names.ts";

const FILE_NAMES: Readonly<Record<SecretName, string>> = {
  hubToken: "hub-token",
  mongoUri: "mongo-uri",
  vectorApiKey: "vector-api-key",
};

/** Where the instance has a secret. */
export function secretFile(name: SecretName): string {
  return name === "hubToken" ? HUB_TOKEN_FILE : `${SECRET_FOLDER}/${FILE_NAMES[name]}`;
}

/** Files of secrets that a container reads: its own, and what it mounts from the folder of secrets. */
export function readSecrets({ secretFiles, mounts }: DockerContainer): readonly string[] {
  const paths = mounts.flatMap(({ source }) => ("hostPath" in source ? [source.hostPath] : []));
  return [
    ...Object.values(secretFiles).map(secretFile),
    ...paths.filter((path) => path.startsWith(`${SECRET_FOLDER}/`)),
  ];
}

/** Secrets that the containers of a stack read, in the order of the table of secrets. */
export function instanceSecrets(
  { config }: Ec2Plan,
  stack: DockerStack,
  context: AwsContext,
): readonly InstanceSecretPlan[] {
  const files = new Set(stack.containers.flatMap(readSecrets));
  const names = (Object.keys(FILE_NAMES) as SecretName[]).filter((name) => files.has(secretFile(name)));
  return names.map((name) => {
    const own = { name, secretName: `${context.name}/${FILE_NAMES[name]}`, file: secretFile(name) };
    return name === "hubToken" && config.hub.tokenSecretArn !== undefined
      ? { ...own, secretName: null, arn: config.hub.tokenSecretArn }
      : { ...own, arn: secretArn(own.secretName, context) };
  });
}

/** Secrets Manager ends the ARN in six characters that it chooses. */
function secretArn(secretName: string, { partition, region, account }: AwsContext): string {
  return `arn:${partition}:secretsmanager:${region}:${account}:secret:${secretName}-??????`;
}
