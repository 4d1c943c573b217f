import { MIRROR_REPOSITORY } from "../../infra/plan/aws/account.ts";
import { IMAGE_NAMES } from "../../infra/plan/docker/images.ts";
import { requireAccount } from "../aws/account.ts";
import { ecrHost, imagesThatEcrLacks, prepareEcrPush } from "../aws/ecr.ts";
import { UsageError, UserError } from "../errors.ts";
import {
  downloadGB,
  downloadSeconds,
  type ImageState,
  type ImageTarget,
  imageStates,
} from "../images/image-states.ts";
import { makeImage, requireBuildKit } from "../images/make-images.ts";
import { mirroredBases, mirrorImage, mirrorLines, mirrorStates } from "../images/mirror.ts";
import { duration, textTable } from "../plan/text-table.ts";
import { operationsOf } from "../platforms/index.ts";
import type { StackImages } from "../platforms/operations.ts";
import { type EngineReading, readDocker } from "../preflight/docker-reading.ts";
import { findingsReport } from "../preflight/finding.ts";
import { diskFindings } from "../preflight/host-checks.ts";
import { type HostProbe, hostProbe } from "../preflight/host-probe.ts";
import { readMachine } from "../preflight/machine-reading.ts";
import type { AwsTarget } from "../program/targets.ts";
import { defineCommand, EXIT } from "./command.ts";

export const command = defineCommand({
  options: {
    "--push": "push to images.registry of the stack file, and write the digests to images.lock.json",
    "--mirror":
      "copy NVIDIA's images of the release into the repository tritonserver of a stack on AWS, by digest, and print the lines of the stack file that build on them; does nothing else",
    "--only <name...>": { text: "this image alone", choices: IMAGE_NAMES },
    "--secret <id=ID,src=FILE...>":
      "settings of mirrors for `docker build --secret`, as the Dockerfiles name them",
    "--dry-run": "print what is there and what would be done",
  },
  notes: [
    "Images are built on the stack's Docker host, or on this machine for a cluster. Images that the lock file has with the same content are not built again. Databases' own images are pulled, and always locked.",
    "Log in with `docker login` before; of ECR alone, this command asks for a token, which it does not keep.",
  ],
  async run({ stack, values }) {
    const operations = await operationsOf(stack);
    const images = operations.images();
    if (images === null)
      throw new UsageError(
        `images is for \`platform: docker\`, \`kubernetes\` and \`aws\`, and the stack ${stack.name} has \`platform: ${operations.platform}\`, which runs without images.`,
      );
    const push = values.push === true;
    const { target, aws } = images;
    const { uri, registry } = target;
    if (values.mirror === true) {
      if (push)
        throw new UsageError("--mirror copies what others publish, and --push what is built: give one.");
      return mirror(aws, stack.name, {
        target,
        only: values.only ?? [],
        isDryRun: values.dryRun === true,
      });
    }
    if (push && registry === null)
      throw new UserError("--push has nowhere to push to; set images.registry in the stack file.");
    if (aws !== null && push && isOwnRegistry(aws, registry)) await requireAccount(aws.context);
    const probe = hostProbe(uri);
    const engine = await requireEngine(images, probe);
    const only = values.only ?? [];
    const toCopy = aws === null || !push ? new Set<string>() : await imagesThatEcrLacks(aws);
    const states = imageStates(target, { push, onHost: engine.images, toCopy }).filter(
      ({ image }) => only.length === 0 || only.includes(image.name),
    );
    refuseUnknown(only, target);
    const gb = totalGB(states, target, engine);
    process.stdout.write(`${report(states, gb)}\n`);
    const work = states.filter(({ steps }) => steps.length > 0);
    if (values.dryRun === true || work.length === 0) return EXIT.ok;
    await refuseFullDisk(uri, probe, engine, work, gb);
    if (work.some(({ steps }) => steps.includes("build"))) await requireBuildKit(probe);
    if (aws !== null && push && registry !== null) await prepareEcrPush(aws, registry, pushedNames(work));
    for (const state of work) await makeImage(state, { uri, probe, secrets: values.secret ?? [] });
    process.stdout.write(`Done: ${work.map(({ key }) => key).join(", ")}.\n`);
    return EXIT.ok;
  },
});

interface MirrorOptions {
  readonly target: ImageTarget;
  readonly only: readonly string[];
  readonly isDryRun: boolean;
}

async function mirror(aws: AwsTarget | null, stack: string, options: MirrorOptions): Promise<number> {
  const { target, only, isDryRun } = options;
  const { uri, registry, needed, options: inputs } = target;
  if (aws === null || registry === null || ecrHost(registry.split("/")[0] ?? "") === null)
    throw new UserError(
      `--mirror copies into ECR, and the images of ${stack} come from ${registry ?? "its own host"}; it is for \`platform: aws\` without \`images.registry\`.`,
    );
  refuseUnknown(only, target);
  if (isOwnRegistry(aws, registry)) await requireAccount(aws.context);
  const bases = mirroredBases(needed, inputs.triton).filter(
    ({ image }) => only.length === 0 || only.includes(image),
  );
  const states = await mirrorStates(bases, registry, hostProbe(uri));
  for (const { source, digest, isThere } of states)
    process.stdout.write(`${source} ${digest}: ${isThere ? "copied already" : "to copy"}\n`);
  const work = states.filter(({ isThere }) => !isThere);
  if (work.length > 0 && !isDryRun) {
    await prepareEcrPush(aws, registry, [MIRROR_REPOSITORY]);
    for (const state of work) await mirrorImage(state, registry, uri);
  }
  process.stdout.write(
    `To build on ${isDryRun && work.length > 0 ? "the copies once they are there" : "the copies"}, write into the stack file, and run \`npx engine-room images --stack ${stack} --push\` again:\n${mirrorLines(states)}`,
  );
  return EXIT.ok;
}

function pushedNames(work: readonly ImageState[]): readonly string[] {
  return work
    .filter(({ steps }) => steps.includes("push") || steps.includes("copy"))
    .map(({ image }) => image.name);
}

/** Another account's lets in whom its owner allows, whichever account that one is of. */
function isOwnRegistry({ context }: AwsTarget, registry: string | null): boolean {
  return ecrHost(registry?.split("/")[0] ?? "")?.account === context.account;
}

async function requireEngine(
  { target, engineFinding }: StackImages,
  probe: HostProbe,
): Promise<EngineReading> {
  const reading = await readDocker(probe);
  if (reading.kind === "engine") return reading;
  const { what, why, fix } = engineFinding(target.uri, reading);
  throw new UserError(`${what} ${why}\n${fix}`);
}

/** What the host has yet to get; a push takes no room. */
function totalGB(states: readonly ImageState[], { options }: ImageTarget, engine: EngineReading): number {
  return states
    .filter(({ steps }) => steps.includes("build") || steps.includes("pull"))
    .reduce((sum, { image }) => sum + downloadGB(image.name, options, engine.images), 0);
}

const STATES = { locked: "locked", onHost: "on the host", missing: "not there" } as const;

function report(states: readonly ImageState[], gb: number): string {
  const columns = [{ title: "IMAGE" }, { title: "IS" }, { title: "LEFT TO DO" }, { title: "NAME" }] as const;
  const rows = states.map(({ key, state, steps, image, pushReference }) => [
    key,
    STATES[state],
    steps.join(", ") || "nothing",
    (steps.includes("push") ? pushReference : null) ?? image.reference,
  ]);
  const lines = textTable(columns, rows, { indent: 0, width: 160 });
  if (gb === 0) return lines.join("\n");
  const needs = `About ${gb.toFixed(1)} GB of the host's disk, and ${duration(downloadSeconds(gb))} to download and unpack: estimates.`;
  return [...lines, "", needs].join("\n");
}

function refuseUnknown(only: readonly string[], { needed }: ImageTarget): void {
  const unknown = only.find((name) => !(needed as readonly string[]).includes(name));
  if (unknown !== undefined)
    throw new UsageError(`--only ${unknown} is no image of this stack; it has ${needed.join(", ")}.`);
}

async function refuseFullDisk(
  uri: string,
  probe: HostProbe,
  { rootDirectory }: EngineReading,
  work: readonly ImageState[],
  gb: number,
): Promise<void> {
  const machine = await readMachine(probe, [rootDirectory]);
  const names = work.map(({ image }) => image.name).join(", ");
  if ("unreachable" in machine)
    throw new UserError(`The space of ${rootDirectory} can't be measured on ${uri}: ${machine.unreachable}.`);
  const space = machine.space.get(rootDirectory);
  if (space === undefined)
    process.stderr.write(`Nobody knows whether they fit: df says nothing of ${rootDirectory}.\n`);
  const findings = diskFindings([{ what: `images ${names}`, gb, space }]);
  if (findings.length > 0) throw new UserError(findingsReport(uri, findings));
}
