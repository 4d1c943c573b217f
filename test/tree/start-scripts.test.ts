import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";

const SERVICES = join(projectRoot, "containers/services");
const names = readdirSync(SERVICES)
  .map((folder) => join(SERVICES, folder, "package.json"))
  .filter((manifest) => existsSync(manifest))
  .map((manifest) => JSON.parse(readFileSync(manifest, "utf8")))
  .filter(({ scripts }) => scripts?.start !== undefined)
  .map(({ name }) => name as string);

/** The oldest that is supported does not take TypeScript by itself. */
test.each(names)(
  "`npm start` of %s runs on this Node: without arguments it tells its usage",
  async (name) => {
    const output = await new Promise<string>((resolve) => {
      execFile("npm", ["start", "--silent", "--workspace", name], { cwd: projectRoot }, (_, stdout, stderr) =>
        resolve(`${stdout}${stderr}`),
      );
    });
    expect(output).toContain("Usage: main.ts");
  },
);
