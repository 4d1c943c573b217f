/**
 * The disk of the databases as the machine sees it: found by its volume, given a file system once, and mounted at each start.
 * Units, because it is attached only after the machine runs, and because containers have to wait for it.
 */
import { placeholder } from "../names.ts";
import { DATABASE_FOLDER, DATABASE_MOUNT, PROGRAM_FOLDER, UNIT_FOLDER } from "./names.ts";
import { unitText } from "./unit-text.ts";

/**
 * The link that udev makes of an NVMe disk's model and serial number, which on Nitro, as all machines of the catalogue are, is the
 * volume's id without its hyphen. Device names follow the order in which disks answer.
 * https://docs.aws.amazon.com/ebs/latest/userguide/identify-nvme-ebs-device.html
 */
const DEVICE = `/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_${placeholder("databaseVolumeSerial")}`;

const FORMAT_UNIT = "engine-room.format-databases.service";
const FORMAT_PROGRAM = `${PROGRAM_FOLDER}/format-databases`;

/** For udev to have looked at a disk that is attached; a service has longer for its own end. */
const DEVICE_SECONDS = 240;
const FORMAT_SECONDS = 600;

/** A new volume has nothing but zeros; file systems, partitions and encrypted disks begin within its first part. */
const LOOKED_AT_BYTES = 2 ** 20;

interface MachineFile {
  readonly path: string;
  readonly mode: string;
  /** With placeholders for what is known when the volume is there. */
  readonly text: string;
}

/** Serial number that an EBS volume has as an NVMe disk. @param volumeId - `vol-0123456789abcdef0` */
export function volumeSerial(volumeId: string): string {
  return volumeId.replace("-", "");
}

/** What the machine needs of files for it. */
export function databaseDiskFiles(): readonly MachineFile[] {
  return [
    { path: FORMAT_PROGRAM, mode: "0755", text: formatProgram() },
    { path: `${UNIT_FOLDER}/${FORMAT_UNIT}`, mode: "0644", text: formatUnit() },
    { path: `${UNIT_FOLDER}/${DATABASE_MOUNT}`, mode: "0644", text: mountUnit() },
  ];
}

/**
 * Nothing is ever formatted that may hold something: blkid has the same answer for a disk without a file system and for one that it
 * can't read, so the disk has to be readable and empty besides, and `mkfs.xfs` looks once more.
 */
function formatProgram(): string {
  return `${[
    "#!/bin/bash",
    "set -euo pipefail",
    `device=${DEVICE}`,
    `udevadm wait --timeout=${DEVICE_SECONDS} "$device"`,
    "found=0",
    'blkid --probe "$device" || found=$?',
    "# 0: it has a file system. 2: none is known.",
    'case "$found" in',
    "  0) exit 0 ;;",
    "  2) ;;",
    '  *) echo "blkid ends with $found: $device is left as it is." >&2; exit 1 ;;',
    "esac",
    `if ! cmp --bytes=${LOOKED_AT_BYTES} "$device" /dev/zero; then`,
    '  echo "$device has no file system that is known, and is not empty either: it is left as it is." >&2',
    "  exit 1",
    "fi",
    // MongoDB's own advice for its storage engine: https://www.mongodb.com/docs/manual/administration/production-notes/
    'mkfs.xfs -q "$device"',
  ].join("\n")}\n`;
}

function formatUnit(): string {
  return unitText({
    Unit: [["Description", "engine-room: file system of the databases' disk"]],
    Service: [
      ["Type", "oneshot"],
      ["RemainAfterExit", "yes"],
      ["ExecStart", FORMAT_PROGRAM],
      ["TimeoutStartSec", String(FORMAT_SECONDS)],
    ],
  });
}

/**
 * Without the dependencies that mounts have by default: a machine starts, and lets a person look at it, where the disk is missing.
 * It goes at the end of the machine all the same, after the containers, which require it.
 */
function mountUnit(): string {
  return unitText({
    Unit: [
      ["Description", "engine-room: documents of the databases"],
      ["DefaultDependencies", "no"],
      ["Requires", FORMAT_UNIT],
      ["After", FORMAT_UNIT],
      ["Conflicts", "umount.target"],
      ["Before", "umount.target"],
    ],
    Mount: [
      ["What", DEVICE],
      ["Where", DATABASE_FOLDER],
      ["Type", "xfs"],
      ["Options", "noatime,nodev,nosuid"],
    ],
    Install: [["WantedBy", "multi-user.target"]],
  });
}
