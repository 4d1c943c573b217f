/** A task as a document of Systems Manager. */
import { ConfigError } from "../../../problems.ts";
import { jsonDigest } from "../../canonical-json.ts";
import type { AwsContext } from "../types.ts";

/** 64 KB of https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_CreateDocument.html, less what parameters take. */
export const DOCUMENT_BYTES = 60_000;
/** Of the same page. */
const NAME_LENGTH = 128;
const HASH_DIGITS = 12;

/** Parameter by which another value of a secret makes the association another one. */
export const SECRET_VERSIONS = "secretVersions";

interface TaskText {
  readonly name: string;
  readonly script: string;
  readonly timeoutSeconds: number;
  readonly readsSecrets: boolean;
}

/**
 * The name has a hash of the content: `waitForSuccessTimeoutSeconds` holds when an association is made, not when it changes
 * (`resourceAssociationCreate` of terraform-provider-aws), and another name makes it anew, and run.
 *
 * @throws ConfigError where it is larger than Systems Manager takes.
 */
export function taskDocument(task: TaskText, { name: stackName }: AwsContext) {
  const content = documentContent(task);
  const bytes = Buffer.byteLength(content, "utf8");
  if (bytes > DOCUMENT_BYTES) throw tooLarge(task.name, bytes);
  const hash = jsonDigest(content).slice(0, HASH_DIGITS);
  const prefix = `${stackName}-${task.name}`.slice(0, NAME_LENGTH - HASH_DIGITS - 1);
  return { name: `${prefix}-${hash}`, content };
}

/** Bytes of its JSON. */
export function documentBytes(task: TaskText): number {
  return Buffer.byteLength(documentContent(task), "utf8");
}

function documentContent({ name, script, timeoutSeconds, readsSecrets }: TaskText): string {
  return JSON.stringify({
    schemaVersion: "2.2",
    description: `engine-room: ${name}`,
    ...(readsSecrets
      ? {
          parameters: {
            [SECRET_VERSIONS]: {
              type: "String",
              description:
                "Versions of the secrets, which the script does not read: another one runs it again.",
              allowedPattern: "^[A-Za-z0-9 -]+$",
              default: "none",
            },
          },
        }
      : {}),
    mainSteps: [
      {
        action: "aws:runShellScript",
        name: "run",
        precondition: { StringEquals: ["platformType", "Linux"] },
        inputs: { timeoutSeconds: String(timeoutSeconds), runCommand: script.split("\n") },
      },
    ],
  });
}

function tooLarge(task: string, bytes: number): ConfigError {
  return new ConfigError([
    {
      path: "models",
      value: task,
      reason: `What the instance is told in one command has ${bytes} bytes, and Systems Manager takes ${DOCUMENT_BYTES}.`,
      fix: "Serve fewer models on the instance, or write `compute: eks`.",
    },
  ]);
}
