/** What deploys to a Docker host: the Pulumi CLI, and the plugin of its Docker provider. */
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { findPulumi } from "../../../scripts/setup/pulumi-cli.ts";

const PLUGIN = "pulumi-resource-docker";

/** What is missing, with the command that brings it; undefined where nothing is. */
export function missingPulumiPrograms(): string | undefined {
  if (findPulumi() === undefined) return "no Pulumi CLI on PATH";
  const version = pluginVersion();
  const home = process.env.PULUMI_HOME ?? join(homedir(), ".pulumi");
  const folders = [
    ...(process.env.PATH ?? "").split(delimiter),
    join(home, "plugins", `resource-docker-v${version}`),
  ];
  if (folders.some((folder) => existsSync(join(folder, PLUGIN)))) return undefined;
  return `no ${PLUGIN} on PATH; \`pulumi plugin install resource docker ${version}\` brings it`;
}

/** That of the SDK. */
function pluginVersion(): string {
  const manifest = join(projectRoot, "node_modules/@pulumi/docker/package.json");
  return (JSON.parse(readFileSync(manifest, "utf8")) as { version: string }).version;
}
