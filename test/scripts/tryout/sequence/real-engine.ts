/** Runs the history in the real engine. @returns Its operations. */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { stringify } from "yaml";
import { projectRoot } from "../../../../scripts/program/stack-file.ts";
import { steps } from "./steps.ts";

/** `create local:index:Thing a`; unchanged resources have no line. */
type OperationLine = string;

export interface RecordedStep {
  readonly title: string;
  readonly preview: readonly OperationLine[];
  readonly up: readonly OperationLine[];
}

const here = fileURLToPath(new URL(".", import.meta.url));

interface EngineEvent {
  readonly resourcePreEvent?: {
    readonly metadata: { readonly op: string; readonly urn: string; readonly type: string };
  };
}

/** @param pulumi - Path of the CLI. */
export function recordWithRealEngine(pulumi: string): RecordedStep[] {
  const directory = mkdtempSync(join(tmpdir(), "engine-room-sequence-"));
  const backend = join(directory, "state");
  mkdirSync(backend);
  writeFileSync(
    join(directory, "Pulumi.yaml"),
    stringify({
      name: "engine-room",
      main: "index.ts",
      runtime: {
        name: "nodejs",
        options: { packagemanager: "npm", typescript: false, nodeargs: "--import tsx" },
      },
      plugins: { providers: [{ name: "local", path: join(here, "provider") }] },
    }),
  );
  writeFileSync(join(directory, "package.json"), JSON.stringify({ name: "sequence", type: "module" }));
  symlinkSync(join(projectRoot, "node_modules"), join(directory, "node_modules"));
  cpSync(join(here, "program.ts"), join(directory, "program.ts"));
  writeFileSync(
    join(directory, "index.ts"),
    'import { program } from "./program.ts";\nexport const tokens = await program();\n',
  );
  const run = (args: readonly string[]) =>
    execFileSync(pulumi, [...args, "--non-interactive", "--stack", "test"], {
      cwd: directory,
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...process.env,
        PULUMI_BACKEND_URL: `file://${backend}`,
        PULUMI_CONFIG_PASSPHRASE: "test",
        PULUMI_SKIP_UPDATE_CHECK: "true",
        PULUMI_DEBUG_COMMANDS: "true",
      },
    });
  try {
    run(["stack", "init"]);
    return steps.map(({ title, things }) => {
      const file = join(directory, "Pulumi.test.yaml");
      const kept = readFileSync(file, "utf8")
        .split("\n")
        .filter((line) => line.startsWith("encryptionsalt"));
      writeFileSync(file, `${kept.join("\n")}\n${stringify({ config: { "engine-room:things": things } })}`);
      const operations = (command: readonly string[]): OperationLine[] => {
        const log = join(directory, "events.json");
        rmSync(log, { force: true });
        run([...command, "--event-log", log]);
        return readFileSync(log, "utf8")
          .split("\n")
          .filter((line) => line !== "")
          .flatMap((line) => operationOf(JSON.parse(line) as EngineEvent));
      };
      return { title, preview: operations(["preview"]), up: operations(["up", "--yes", "--skip-preview"]) };
    });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Events of a replacement that are left out: the runner has one operation, named like the engine's middle event. */
const REPLACEMENT_DETAILS = ["create-replacement", "delete-replaced"];

function operationOf(event: EngineEvent): OperationLine[] {
  const metadata = event.resourcePreEvent?.metadata;
  if (metadata === undefined || metadata.op === "same" || REPLACEMENT_DETAILS.includes(metadata.op))
    return [];
  if (metadata.type.startsWith("pulumi:providers:")) return [];
  return [`${metadata.op} ${metadata.type} ${metadata.urn.split("::")[3]}`];
}
