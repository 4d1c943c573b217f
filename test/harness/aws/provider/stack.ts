/** A stack on AWS that the project's own commands and the Pulumi CLI bring up, with the stand-in in the place of AWS. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkedPlan } from "../../../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../../../infra/config/config.ts";
import type { AwsPlan } from "../../../../infra/plan/gpu-stack.ts";
import { readStackFile, stackReference } from "../../../../scripts/program/stack-file.ts";
import { type FakeAws, startFakeAws } from "../../../scripts/aws/fake-aws.ts";
import { imageLock } from "../../image-lock.ts";
import type { Connection } from "../../kubernetes/cluster.ts";
import { TestStack } from "../../stack.ts";
import type { Call } from "./account.ts";
import { StandInAccount } from "./install.ts";

/** The account of every test's stack. */
const ACCOUNT = "111122223333";

const CREDENTIALS = {
  AWS_ACCESS_KEY_ID: "testing",
  AWS_SECRET_ACCESS_KEY: "testing",
  AWS_CONFIG_FILE: "/dev/null",
  AWS_SHARED_CREDENTIALS_FILE: "/dev/null",
  AWS_EC2_METADATA_DISABLED: "true",
};

type Values = Readonly<Record<string, unknown>>;

export class StandInStack {
  readonly stack: TestStack;
  readonly account: StandInAccount;
  /** Endpoint of commands that call AWS without Pulumi. */
  readonly #aws: Promise<FakeAws>;
  readonly #ownEnvironment: NodeJS.ProcessEnv;
  readonly #files = mkdtempSync(join(tmpdir(), "engine-room-lock-"));

  /** @param connection - The stack's cluster. */
  constructor(name: string, values: Values, connection?: Connection) {
    this.stack = new TestStack(name, { ...values, account: ACCOUNT });
    this.account = new StandInAccount({
      account: ACCOUNT,
      ...(connection === undefined ? {} : { connection }),
    });
    const lockFile = join(this.#files, "images.lock.json");
    this.#ownEnvironment = {
      ...CREDENTIALS,
      ...this.account.environment,
      ENGINE_ROOM_RUNNER: "",
      CI: "true",
      ENGINE_ROOM_IMAGE_LOCK: lockFile,
    };
    writeFileSync(lockFile, imageLock(this.plan()));
    this.#aws = startFakeAws(this.account.service);
  }

  async #environment(): Promise<NodeJS.ProcessEnv> {
    return { ...this.#ownEnvironment, AWS_ENDPOINT_URL: (await this.#aws).url };
  }

  configure(values: Values): void {
    this.stack.configure({ ...values, account: ACCOUNT });
  }

  /** The plan of the present stack file. */
  plan(): AwsPlan {
    const { values } = readStackFile(stackReference(this.stack.name, this.stack.configFile));
    const { plan } = checkedPlan(fromRuntimeConfig(values));
    if (plan.platform !== "aws") throw new Error(`It is a stack of ${plan.platform}.`);
    return plan;
  }

  async run(command: string, ...args: string[]) {
    return this.stack.runWith(await this.#environment(), command, ...args);
  }

  async succeed(command: string, ...args: string[]) {
    return this.stack.succeedWith(await this.#environment(), command, ...args);
  }

  /** A command of Pulumi's own. */
  async plain(command: string, ...args: string[]) {
    return this.stack.runPulumi(await this.#environment(), command, ...args);
  }

  /** Numbers of resources by planned change: `create`, `update`, `replace`, `delete`, `unchanged`. */
  async previewed(): Promise<Readonly<Record<string, number>>> {
    return counts((await this.succeed("preview")).stdout);
  }

  /** The same numbers of an `up`. */
  async brought(): Promise<Readonly<Record<string, number>>> {
    const { stdout, stderr } = await this.succeed("up");
    return counts(stdout + stderr);
  }

  /** Calls to AWS that `work` led to. */
  async callsOf(work: () => Promise<unknown>): Promise<readonly Call[]> {
    const before = this.account.calls().length;
    await work();
    return this.account.calls().slice(before);
  }

  /** The CLI's state of the stack: the output of `pulumi stack export`. */
  stateFile(): string {
    return this.stack.stateFile();
  }

  async dispose(): Promise<void> {
    try {
      await this.stack.dispose(await this.#environment());
    } finally {
      await (await this.#aws).close();
      rmSync(this.#files, { recursive: true, force: true });
      this.account.remove();
    }
  }
}

/** `71 to create, 2 unchanged` or `71 created, 2 unchanged` of the last line that has them. */
function counts(output: string): Readonly<Record<string, number>> {
  const list = output.match(/^ *\d+ (?:to )?(?:creat|updat|replac|delet|unchang).*$/gm)?.at(-1) ?? "";
  const lines = [...list.matchAll(/(\d+) (?:to )?([a-z]+)/g)];
  return Object.fromEntries(lines.map(([, number, word = ""]) => [DONE[word] ?? word, Number(number)]));
}

const DONE: Readonly<Record<string, string>> = {
  created: "create",
  updated: "update",
  replaced: "replace",
  deleted: "delete",
};
