#!/bin/bash
# format-databases DEVICE: creates a file system on the databases' disk if it lacks one.
#
# A disk that may hold data is never formatted: blkid has the same answer for a disk without a file system and for a disk that
# it can't read, so the disk must also be readable and empty, and mkfs.xfs checks again.
set -euo pipefail
device=$1
# The disk is attached to a machine that runs already.
udevadm wait --timeout=240 "$device"
found=0
blkid --probe "$device" || found=$?
# 0: it has a file system. 2: none is known.
case "$found" in
  0) exit 0 ;;
  2) ;;
  *)
    echo "blkid ends with $found: $device is left as it is." >&2
    exit 1
    ;;
esac
# A new volume has nothing but zeros; file systems, partitions and encrypted disks begin within its first MiB.
if ! cmp --bytes=1048576 "$device" /dev/zero; then
  echo "$device has no file system that is known, and is not empty either: it is left as it is." >&2
  exit 1
fi
# MongoDB's advice for its storage engine: https://www.mongodb.com/docs/manual/administration/production-notes/
mkfs.xfs -q "$device"
