/**
 * What the machine does when it starts for the first time, and only then: its disks, the engine store, and a look at its GPUs.
 * Everything that changes with a stack comes later, through Systems Manager.
 */
import type { MachineType } from "../../catalogue/types.ts";
import { placeholder, STORE_FOLDER } from "../names.ts";
import { databaseDiskFiles } from "./database-disk.ts";
import { DATABASE_MOUNT, PROGRAM_FOLDER, READY_FILE, STATE_FOLDER } from "./names.ts";

/** https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html: before it is encoded. */
export const USER_DATA_BYTES = 16_384;

/** Where the AMI's `dlami-nvme.service` mounts the local disks at each start, striped into one volume. */
const LOCAL_DISKS = "/opt/dlami/nvme";

/** A shell script. @param machine - What the instance type has. */
export function userData({ gpus, localDiskGB }: MachineType): string {
  return `${[
    "#!/bin/bash",
    "set -euo pipefail",
    ...RETRY,
    "# The only way in: first, so that a person can look at what fails below.",
    "systemctl enable --now amazon-ssm-agent",
    ...mountStore(),
    ...databaseDisk(),
    ...(localDiskGB > 0 ? dockerOnLocalDisks() : []),
    ...checkGpus(gpus),
    `install -d ${STATE_FOLDER}/applied`,
    `touch ${READY_FILE}`,
  ].join("\n")}\n`;
}

const RETRY = [
  "retry() {",
  "  local attempt",
  "  for attempt in {1..30}; do",
  '    if "$@"; then return 0; fi',
  '    echo "attempt $attempt of: $*"',
  "    sleep 10",
  "  done",
  '  "$@"',
  "}",
];

/** The name of a mount target takes a while to be known; `nofail` lets a machine start that can't reach it, for a look at it. */
function mountStore(): readonly string[] {
  const options = `_netdev,nofail,noresvport,tls,iam,accesspoint=${placeholder("accessPointId")}`;
  return [
    "# The engine store, over TLS and with the machine's role.",
    "rpm --query amazon-efs-utils >/dev/null || retry dnf --assumeyes --quiet install amazon-efs-utils",
    `install -d ${STORE_FOLDER}`,
    `if ! grep --quiet ' ${STORE_FOLDER} ' /etc/fstab; then`,
    `  echo '${placeholder("fileSystemId")}:/ ${STORE_FOLDER} efs ${options} 0 0' >>/etc/fstab`,
    "fi",
    "systemctl daemon-reload",
    `mountpoint --quiet ${STORE_FOLDER} || retry mount ${STORE_FOLDER}`,
  ];
}

/** Not started yet: the disk is attached to a machine that runs, and the setup waits for it. */
function databaseDisk(): readonly string[] {
  const files = databaseDiskFiles().flatMap(({ path, mode, text }) => [
    `cat >${path} <<'END'`,
    text.trimEnd(),
    "END",
    `chmod ${mode} ${path}`,
  ]);
  return [
    "# The databases' disk, which this machine gets once it runs.",
    `install -d ${PROGRAM_FOLDER}`,
    ...files,
    "systemctl daemon-reload",
    `systemctl enable --quiet ${DATABASE_MOUNT}`,
  ];
}

/**
 * Images and scratch are read and written faster there than on the root disk, and are made again after a stop empties it. The
 * units write nothing else to Docker's folder: volumes that are kept lie on the databases' disk.
 */
function dockerOnLocalDisks(): readonly string[] {
  return [
    "# Docker's folder is on the local disks, which the AMI has made one volume of: they are empty after each stop.",
    `retry mountpoint --quiet ${LOCAL_DISKS}`,
    "install -d /etc/docker /etc/systemd/system/docker.service.d",
    "python3 - <<'END'",
    "import json, pathlib",
    'path = pathlib.Path("/etc/docker/daemon.json")',
    "settings = json.loads(path.read_text()) if path.exists() else {}",
    `settings["data-root"] = "${LOCAL_DISKS}/docker"`,
    "path.write_text(json.dumps(settings, indent=2))",
    "END",
    "cat >/etc/systemd/system/docker.service.d/engine-room.conf <<'END'",
    "[Unit]",
    "After=dlami-nvme.service",
    "[Service]",
    `ExecStartPre=/usr/bin/mountpoint --quiet ${LOCAL_DISKS}`,
    "END",
    "systemctl daemon-reload",
  ];
}

function checkGpus(gpus: number): readonly string[] {
  return [
    "systemctl enable --quiet docker",
    "systemctl restart docker",
    "# What a person would look at first: all GPUs, and a Docker that can hand them on.",
    `[ "$(nvidia-smi --list-gpus | wc -l)" -eq ${gpus} ]`,
    "docker info --format '{{json .Runtimes}}' | grep --quiet '\"nvidia\"'",
  ];
}
