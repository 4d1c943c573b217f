/**
 * A stand-in for AWS behind the real Pulumi engine: a plugin on PATH that the engine takes for AWS's own. It creates
 * nothing, and answers as a working account would, except to calls in the wrong order.
 */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { projectRoot } from "../../../../scripts/program/stack-file.ts";
import type { FakeService } from "../../../scripts/aws/fake-aws.ts";
import type { Connection } from "../../kubernetes/cluster.ts";
import { Account, type Call, type LiveResource } from "./account.ts";
import { accountService } from "./endpoint.ts";
import { endingWith } from "./order-errors.ts";
import type { Settings } from "./plugin.ts";

interface Options {
  readonly account: string;
  /** @default "us-east-1" */
  readonly region?: string;
  /** Address and token of every EKS cluster; absent if no test connects. */
  readonly connection?: Connection;
}

export class StandInAccount {
  /** Environment of a command that is to call the stand-in in place of AWS. */
  readonly environment: Readonly<Record<string, string>>;
  /** Answers to commands that call AWS without a plugin. */
  readonly service: FakeService;
  readonly #folder = mkdtempSync(join(tmpdir(), "engine-room-aws-"));
  readonly #account: Account;

  constructor({ account, region = "us-east-1", connection }: Options) {
    const programs = join(this.#folder, "bin");
    mkdirSync(programs);
    const settings: Settings = {
      ...{ account, region, folder: this.#folder, version: sdkVersion() },
      ...(connection === undefined
        ? {}
        : {
            cluster: {
              endpoint: connection.server,
              certificateAuthority: connection.certificateAuthority,
            },
          }),
    };
    const plugin = fileURLToPath(new URL("plugin.ts", import.meta.url));
    const loader = import.meta.resolve("tsx");
    this.#addProgram(programs, "pulumi-resource-aws", [
      ...[process.execPath, "--import", loader, plugin],
      JSON.stringify(settings),
    ]);
    if (connection !== undefined) this.#addCli(programs, connection);
    this.environment = { PATH: [programs, process.env.PATH ?? ""].join(delimiter) };
    this.#account = new Account(this.#folder);
    this.service = accountService(this.#account, settings);
  }

  /** All resources of the account. */
  live(): readonly LiveResource[] {
    return this.#account.live();
  }

  /** Changes a resource outside of Pulumi. */
  change(resource: LiveResource): void {
    this.#account.keep(resource);
  }

  /** Deletes a resource outside of Pulumi. */
  end(resource: LiveResource): void {
    for (const one of [...endingWith(this.live(), resource), resource]) this.#account.remove(one);
  }

  /** See {@link Account.failNext}. */
  failNext(type: string, reason: string): void {
    this.#account.failNext(type, reason);
  }

  /** All changing calls so far, in order. */
  calls(): readonly Call[] {
    return this.#account.calls();
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** AWS's own program answers one question, that for a token, in a file that only its owner reads. */
  #addCli(programs: string, { token }: Connection): void {
    const answer = join(this.#folder, "token.json");
    const status = { token };
    const credential = { apiVersion: "client.authentication.k8s.io/v1beta1", kind: "ExecCredential", status };
    writeFileSync(answer, JSON.stringify(credential), { mode: 0o600 });
    this.#addProgram(programs, "aws", ["cat", answer], '[ "$1 $2" = "eks get-token" ] || exit 2');
  }

  #addProgram(folder: string, name: string, argv: readonly string[], before = ":"): void {
    const file = join(folder, name);
    const passed = name === "aws" ? "" : ' "$@"';
    const words = argv.map((word) => `'${word.replaceAll("'", "'\\''")}'`);
    writeFileSync(file, `#!/bin/sh\n${before}\nexec ${words.join(" ")}${passed}\n`);
    chmodSync(file, 0o700);
  }
}

/** The plugin that the engine looks for has the SDK's version. */
function sdkVersion(): string {
  const manifest = join(projectRoot, "node_modules/@pulumi/aws/package.json");
  return (JSON.parse(readFileSync(manifest, "utf8")) as { readonly version: string }).version;
}
