/** Programs that deploy with one of Pulumi's providers: the CLI and the provider's plugin. */
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { findProgram } from "../../scripts/stack/pulumi-cli.ts";

/** The missing program, with the command that installs it; undefined when both are installed. */
export function missingPulumiPrograms(provider: "aws" | "docker" | "kubernetes"): string | undefined {
  if (findProgram("pulumi") === undefined) return "no Pulumi CLI on PATH";
  const plugin = `pulumi-resource-${provider}`;
  const version = sdkVersion(provider);
  const home = process.env.PULUMI_HOME ?? join(homedir(), ".pulumi");
  const folders = [
    ...(process.env.PATH ?? "").split(delimiter),
    join(home, "plugins", `resource-${provider}-v${version}`),
  ];
  if (folders.some((folder) => existsSync(join(folder, plugin)))) return undefined;
  return `no ${plugin} on PATH; \`pulumi plugin install resource ${provider} ${version}\` brings it`;
}

/** The plugin's is the same. */
function sdkVersion(provider: string): string {
  const manifest = join(projectRoot, "node_modules/@pulumi", provider, "package.json");
  return (JSON.parse(readFileSync(manifest, "utf8")) as { version: string }).version;
}
