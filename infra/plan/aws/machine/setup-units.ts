/**
 * What a container finds on the machine before it starts: secrets in memory, images, the stack's network, and its volumes on the
 * databases' disk.
 * Units, because a machine that starts again needs them before any command from outside comes.
 */
import type { DockerStack } from "../../docker/types.ts";
import { shellLine } from "../../engine/shell-line.ts";
import type { AwsContext, InstanceSecretPlan, UnitPlan } from "../types.ts";
import {
  DATABASE_FOLDER,
  IMAGE_USER_ID,
  PROGRAM_FOLDER,
  RUN_FOLDER,
  SECRET_FOLDER,
  SETUP_UNITS,
} from "./names.ts";
import { type UnitSection, unitText } from "./unit-text.ts";

/** The largest image has 17 GB to download, and twice that to unpack. */
export const PULL_SECONDS = 3600;
const FETCH_SECONDS = 600;
const NETWORK_SECONDS = 300;

/** In the order in which a task starts them. @param diskGiB - Of the databases' disk. */
export function setupUnits(
  stack: DockerStack,
  secrets: readonly InstanceSecretPlan[],
  diskGiB: number,
  context: AwsContext,
): readonly UnitPlan[] {
  return [
    ...(secrets.length === 0 ? [] : [secretsUnit(secrets, context)]),
    networkUnit(stack, diskGiB),
    imagesUnit(stack),
  ];
}

const ONLINE: UnitSection = [
  ["Wants", "network-online.target"],
  ["After", "network-online.target"],
];
const WITH_DOCKER: UnitSection = [
  ["Requires", "docker.service"],
  ["Wants", "network-online.target"],
  ["After", "network-online.target docker.service"],
];

function secretsUnit(secrets: readonly InstanceSecretPlan[], context: AwsContext): UnitPlan {
  return setupUnit("secrets", "fetch-secrets", ONLINE, FETCH_SECONDS, fetchProgram(secrets, context));
}

function networkUnit(stack: DockerStack, diskGiB: number): UnitPlan {
  const disk: UnitSection = keptVolumes(stack).length === 0 ? [] : [["RequiresMountsFor", DATABASE_FOLDER]];
  const program = networkProgram(stack, diskGiB);
  return setupUnit("network", "make-network", [...WITH_DOCKER, ...disk], NETWORK_SECONDS, program);
}

function keptVolumes({ volumes }: DockerStack): DockerStack["volumes"] {
  return volumes.filter(({ isKept }) => isKept);
}

function imagesUnit(stack: DockerStack): UnitPlan {
  return setupUnit("images", "pull-images", WITH_DOCKER, PULL_SECONDS, pullProgram(stack));
}

/** Its program may run again while it stands: units that require it are not stopped by a reload, as by a restart. */
function setupUnit(
  name: keyof typeof SETUP_UNITS,
  program: string,
  order: UnitSection,
  timeoutSeconds: number,
  lines: readonly string[],
): UnitPlan {
  const path = `${PROGRAM_FOLDER}/${program}`;
  return {
    name: SETUP_UNITS[name],
    role: "setup",
    text: unitText({
      Unit: [["Description", `engine-room: ${name}`], ...order],
      Service: [
        ["Type", "oneshot"],
        ["RemainAfterExit", "yes"],
        ["ExecStart", path],
        ["ExecReload", path],
        ["TimeoutStartSec", String(timeoutSeconds)],
      ],
      "X-EngineRoom": [["Lifecycle", "setup"]],
    }),
    files: { [path]: { text: `${[...HEAD, ...lines].join("\n")}\n`, mode: "0755" } },
  };
}

/** A required unit that fails takes others with it for good, so what the network may deny for a while is tried again. */
const HEAD = [
  "#!/bin/bash",
  "set -euo pipefail",
  "retry() {",
  "  local attempt",
  "  for attempt in 1 2 3 4 5 6 7 8 9; do",
  '    if "$@"; then return 0; fi',
  '    echo "attempt $attempt failed" >&2',
  "    sleep 10",
  "  done",
  '  "$@"',
  "}",
];

/** The value goes from the answer into the file: no argument, no variable and no log has it. */
function fetchProgram(secrets: readonly InstanceSecretPlan[], context: AwsContext): readonly string[] {
  return [
    "umask 077",
    `install -d -m 0711 ${RUN_FOLDER} ${SECRET_FOLDER}`,
    "fetch() {",
    "  local file=$1 id=$2 region=$3",
    '  aws secretsmanager get-secret-value --region "$region" --secret-id "$id" \\',
    `    --query SecretString --output text | tr -d '\\n' >"$file.new"`,
    '  [ -s "$file.new" ] || return 1',
    `  chown ${IMAGE_USER_ID} "$file.new"`,
    '  chmod 0400 "$file.new"',
    '  mv "$file.new" "$file"',
    "}",
    ...secrets.map(({ file, secretName, arn }) =>
      words([
        "retry",
        "fetch",
        file,
        secretName ?? arn,
        secretName === null ? regionOf(arn) : context.region,
      ]),
    ),
  ];
}

/** `arn:aws:secretsmanager:REGION:…`. */
function regionOf(arn: string): string {
  return arn.split(":")[3] ?? "";
}

/**
 * Volumes that are kept lie on the databases' disk: the root disk goes with the machine, and Docker's own folder may be on disks
 * that a stop of the machine empties.
 */
function networkProgram(stack: DockerStack, diskGiB: number): readonly string[] {
  const { network, labels, volumes } = stack;
  const labelOptions = (all: Readonly<Record<string, string>>) =>
    Object.entries(all).map(([name, value]) => `--label=${name}=${value}`);
  const volumeLines = volumes.flatMap(({ name, isKept, userId, labels: own }) => {
    const folder = `${DATABASE_FOLDER}/${name}`;
    const bind = isKept ? ["--opt=type=none", "--opt=o=bind", `--opt=device=${folder}`] : [];
    const owner = userId === null ? [] : ["-m", "0700", "-o", String(userId), "-g", String(userId)];
    return [
      ...(isKept ? [words(["install", "-d", ...owner, folder])] : []),
      words(["make", "volume", name, ...bind, ...labelOptions(own)]),
    ];
  });
  return [
    "make() {",
    "  local kind=$1 name=$2",
    "  shift 2",
    '  if docker "$kind" inspect "$name" >/dev/null 2>&1; then return 0; fi',
    '  docker "$kind" create "$@" "$name" >/dev/null',
    "}",
    words(["make", "network", network, ...labelOptions(labels)]),
    ...(keptVolumes(stack).length === 0 ? [] : growLines(diskGiB)),
    ...volumeLines,
  ];
}

/** A disk of another size is grown while it is used; the kernel hears of it a moment after EC2 has said that it is done. */
function growLines(diskGiB: number): readonly string[] {
  return [
    "is_grown() {",
    "  local device",
    `  device=$(findmnt --noheadings --output SOURCE --mountpoint ${DATABASE_FOLDER})`,
    `  [ "$(blockdev --getsize64 "$device")" -ge ${diskGiB * 2 ** 30} ]`,
    "}",
    "retry is_grown",
    `xfs_growfs ${DATABASE_FOLDER} >/dev/null`,
  ];
}

/** Registries of ECR, by what their addresses say. */
const ECR = /^(\d{12}\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com)\//;

/** What is there already is not asked for: a machine starts again without its registry. */
function pullProgram({ images }: DockerStack): readonly string[] {
  const references = images.map((image) => (image.kind === "locked" ? image.reference : image.tag));
  const registries = new Map(
    references.flatMap((reference) => {
      const [, host, region] = ECR.exec(reference) ?? [];
      return host === undefined || region === undefined ? [] : [[host, region] as const];
    }),
  );
  return [
    "missing=()",
    `for image in ${references.map((one) => words([one])).join(" ")}; do`,
    '  docker image inspect "$image" >/dev/null 2>&1 || missing+=("$image")',
    "done",
    `if [ "\${#missing[@]}" -eq 0 ]; then exit 0; fi`,
    ...(registries.size === 0 ? [] : loginLines([...registries])),
    `for image in "\${missing[@]}"; do`,
    '  retry docker pull --quiet "$image"',
    "done",
  ];
}

/** The password is good for twelve hours, and is kept in memory until the images are there. */
function loginLines(registries: readonly (readonly [host: string, region: string])[]): readonly string[] {
  return [
    "umask 077",
    `install -d -m 0711 ${RUN_FOLDER}`,
    `DOCKER_CONFIG=$(mktemp -d ${RUN_FOLDER}/docker-XXXXXX)`,
    "export DOCKER_CONFIG",
    `trap 'rm -rf "$DOCKER_CONFIG"' EXIT`,
    "login() {",
    '  aws ecr get-login-password --region "$2" |',
    '    docker login --username AWS --password-stdin "$1" >/dev/null',
    "}",
    ...registries.map(([host, region]) => words(["retry", "login", host, region])),
  ];
}

function words(argv: readonly string[]): string {
  return shellLine(argv).replaceAll(" \\\n  ", " ");
}
