import { MIRROR_REPOSITORY } from "../../infra/plan/aws/bootstrap.ts";
import { chartPlans } from "../../infra/plan/aws/cluster-software.ts";
import { publishedCharts } from "../../infra/plan/catalogue/aws.ts";
import { IMAGE_NAMES } from "../../infra/plan/docker/images.ts";
import { requireAccount } from "../aws/account.ts";
import { ecrHost, imagesThatEcrLacks, prepareEcrPush } from "../aws/ecr.ts";
import { UsageError, UserError } from "../errors.ts";
import { downloadGB, downloadSeconds, type ImageState, imageStates } from "../images/image-states.ts";
import { makeImage, mirroredBases, mirrorImage, mirrorLines, mirrorStates } from "../images/make-images.ts";
import { duration, textTable } from "../plan/text-table.ts";
import { operationsOf } from "../platforms/index.ts";
import type { StackImages } from "../platforms/operations.ts";
import { readDocker } from "../preflight/docker-facts.ts";
import { findingsReport } from "../preflight/finding.ts";
import { diskFindings } from "../preflight/host-checks.ts";
import { type HostProbe, hostProbe } from "../preflight/host-probe.ts";
import { readMachine } from "../preflight/machine-facts.ts";
import { type CommandResult, defineCommand } from "./command.ts";

export const command = defineCommand({
  options: {
    "--push": "push to images.registry of the stack file, and write the digests to images.lock.json",
    "--mirror":
      "copy NVIDIA's images of the release into the repository tritonserver of a stack on AWS, by digest, and print the lines of the stack file that build on them; does nothing else",
    "--charts":
      "print images and charts that a cluster on EKS installs, as commands that copy them into cluster.mirror of the stack file; does nothing else",
    "--only <name...>": { text: "only this image", choices: IMAGE_NAMES },
    "--secret <id=ID,src=FILE...>":
      "settings of mirrors for `docker build --secret`, as the Dockerfiles name them",
    "--dry-run": "print the existing images and the missing steps",
    "--json":
      "print JSON: {images}; an image has key, state (locked, onHost, missing), steps that were left to do, reference; with --mirror source, digest, reference, isMirrored; with --charts source, copy, and {charts}",
  },
  notes: [
    "Images are built on the stack's Docker host, or on this machine for a cluster. Images that the lock file has with the same content are not built again. Databases' own images are pulled, and always locked.",
    "Log in with `docker login` before; only for ECR does this command request a token, which it does not keep.",
  ],
  async run({ stack, values, out }) {
    const { platform, images: stackImages } = await operationsOf(stack);
    const images = stackImages();
    if (images === null)
      throw new UsageError(
        `images is for \`platform: docker\`, \`kubernetes\` and \`aws\`, and the stack ${stack.name} has \`platform: ${platform}\`, which runs without images.`,
      );
    const { push = false, only = [], secret = [], dryRun = false } = values;
    const { target, aws } = images;
    const { uri, registry, needed } = target;
    const unknown = only.find((name) => !(needed as readonly string[]).includes(name));
    if (unknown !== undefined)
      throw new UsageError(`--only ${unknown} is not an image of this stack; it has ${needed.join(", ")}.`);
    if (values.charts === true) return chartCopies(aws, stack.name);
    if (values.mirror === true && push)
      throw new UsageError("--mirror copies what others publish, and --push what is built: give one.");
    if (push && registry === null)
      throw new UserError("--push needs a registry; set images.registry in the stack file.");
    // Another account's registry admits principals that its owner allows, from any account.
    const isOwn = aws !== null && ecrHost(registry?.split("/")[0] ?? "")?.account === aws.context.account;
    if (isOwn && (push || values.mirror === true)) await requireAccount(aws.context);
    const isMeant = (name: string) => only.length === 0 || only.some((each) => each === name);
    if (values.mirror === true) return mirror(images, stack.name, isMeant, dryRun);

    const probe = hostProbe(uri);
    const engine = await requireEngine(images, probe);
    const toCopy = aws === null || !push ? new Set<string>() : await imagesThatEcrLacks(aws);
    const states = imageStates(target, { push, onHost: engine.images, toCopy }).filter(({ image }) =>
      isMeant(image.name),
    );
    // Data that the host must still download; a push needs no space.
    const gb = states
      .filter(({ steps }) => steps.includes("build") || steps.includes("pull"))
      .reduce((sum, { image }) => sum + downloadGB(image.name, target.options, engine.images), 0);
    out.write(report(states, gb));
    const work = states.filter(({ steps }) => steps.length > 0);
    if (!dryRun && work.length > 0) {
      await refuseFullDisk({ uri, probe, directory: engine.rootDirectory, out }, work, gb);
      const pushed = work.filter(({ steps }) => steps.includes("push") || steps.includes("copy"));
      if (aws !== null && push && registry !== null)
        await prepareEcrPush(
          registry,
          pushed.map(({ image }) => image.name),
        );
      for (const state of work) await makeImage(state, { uri, probe, secrets: secret });
      out.write(`Done: ${work.map(({ key }) => key).join(", ")}.\n`);
    }
    const json = states.map(({ key, state, steps, ...names }) => ({
      key,
      state,
      steps,
      reference: shownReference({ steps, ...names }),
    }));
    return { json: { images: json } };
  },
});

/** Published images and charts, and the commands that copy them to the registry of the stack file. */
function chartCopies(aws: StackImages["aws"], stack: string): CommandResult {
  if (aws?.plan.compute !== "eks")
    throw new UsageError(`--charts is for stacks on EKS, which install charts; ${stack} has no charts.`);
  const { images, charts } = aws.plan.config.cluster.mirror;
  const plans = chartPlans(aws.plan, aws.context);
  const imageCopies = plans
    .flatMap((chart) => chart.images)
    .map((source) => ({ source, copy: images === undefined ? null : `${images}/${source}` }));
  const chartCopies = plans.map(({ name }) => {
    const { chart, version, repository } = publishedCharts[name];
    return { chart, version, repository, copy: charts === undefined ? null : `oci://${charts}/${chart}` };
  });
  const lines = [
    ...imageCopies.map(({ source, copy }) => (copy === null ? source : `crane copy ${source} ${copy}`)),
    ...chartCopies.map(({ chart, version, repository, copy }) =>
      copy === null
        ? `${repository} ${chart} ${version}`
        : `helm pull ${chart} --repo ${repository} --version ${version} && helm push ${chart}-${version}.tgz ${copy.slice(0, copy.lastIndexOf("/"))}`,
    ),
  ];
  return { json: { images: imageCopies, charts: chartCopies }, text: `${lines.join("\n")}\n` };
}

async function mirror(
  { target: { uri, registry, needed, options }, aws }: StackImages,
  stack: string,
  isMeant: (name: string) => boolean,
  isDryRun: boolean,
): Promise<CommandResult> {
  if (aws === null || registry === null || ecrHost(registry.split("/")[0] ?? "") === null)
    throw new UserError(
      `--mirror copies into ECR, and the images of ${stack} come from ${registry ?? "its own host"}; it is for \`platform: aws\` without \`images.registry\`.`,
    );
  const bases = mirroredBases(needed, options.triton).filter(({ image }) => isMeant(image));
  const images = await mirrorStates(bases, registry, hostProbe(uri));
  const work = images.filter(({ isMirrored }) => !isMirrored);
  if (work.length > 0 && !isDryRun) {
    await prepareEcrPush(registry, [MIRROR_REPOSITORY]);
    for (const image of work) await mirrorImage(image, registry, uri);
  }
  const lines = images.map(
    ({ source, digest, isMirrored }) => `${source} ${digest}: ${isMirrored ? "copied already" : "to copy"}\n`,
  );
  const copies = isDryRun && work.length > 0 ? "the copies once they exist" : "the copies";
  return {
    json: { images },
    text: `${lines.join("")}To build on ${copies}, write into the stack file, and run \`npx engine-room images --stack ${stack} --push\` again:\n${mirrorLines(images)}`,
  };
}

async function requireEngine({ target, engineFinding }: StackImages, probe: HostProbe) {
  const reading = await readDocker(probe);
  if (reading.kind === "engine") return reading;
  const { what, why, fix } = engineFinding(target.uri, reading);
  throw new UserError(`${what} ${why}\n${fix}`);
}

const STATES = { locked: "locked", onHost: "on the host", missing: "not there" } as const;

function shownReference({
  steps,
  image,
  pushReference,
}: Pick<ImageState, "steps" | "image" | "pushReference">) {
  return (steps.includes("push") ? pushReference : null) ?? image.reference;
}

function report(states: readonly ImageState[], gb: number): string {
  const rows = states.map((state) => [
    state.key,
    STATES[state.state],
    state.steps.join(", ") || "nothing",
    shownReference(state),
  ]);
  const table = textTable(["IMAGE", "IS", "LEFT TO DO", "NAME"], rows, { indent: 0, width: 160 });
  const needs = `\nAbout ${gb.toFixed(1)} GB of the host's disk, and ${duration(downloadSeconds(gb))} to download and unpack: estimates.\n`;
  return `${table.join("\n")}\n${gb === 0 ? "" : needs}`;
}

async function refuseFullDisk(
  {
    uri,
    probe,
    directory,
    out,
  }: {
    readonly uri: string;
    readonly probe: HostProbe;
    readonly directory: string;
    readonly out: Pick<NodeJS.WritableStream, "write">;
  },
  work: readonly ImageState[],
  gb: number,
): Promise<void> {
  const machine = await readMachine(probe, [directory]);
  if ("unreachable" in machine)
    throw new UserError(`The space of ${directory} can't be measured on ${uri}: ${machine.unreachable}.`);
  const space = machine.space.get(directory);
  const what = `images ${work.map(({ image }) => image.name).join(", ")}`;
  const findings = diskFindings([{ what, path: directory, gb, space }]);
  if (findings.some(({ severity }) => severity === "problem"))
    throw new UserError(findingsReport(uri, findings));
  for (const finding of findings) out.write(`Warning: ${finding.what} ${finding.why}\n`);
}
