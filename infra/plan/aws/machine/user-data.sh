# Runs only at the machine's first start: mounts its disks and the engine store, and checks its GPUs. Everything that changes
# with a stack comes later, through Systems Manager. The lines above set FILE_SYSTEM_ID, ACCESS_POINT_ID,
# DATABASE_VOLUME_ID, GPUS and LOCAL_DISKS (a folder, or nothing), and write the files below /root/engine-room.
readonly STORE=/srv/engine-room/store
readonly PROGRAMS=/opt/engine-room
readonly UNITS=/etc/systemd/system

retry() {
  local attempt
  for attempt in {1..30}; do
    if "$@"; then return 0; fi
    echo "attempt $attempt of: $*"
    sleep 10
  done
  "$@"
}

# The only way in: first, so that a person can look at what fails below.
systemctl enable --now amazon-ssm-agent

# The engine store, over TLS and with the machine's role. The name of a mount target takes a while to be known; `nofail` lets
# a machine start that can't reach it.
rpm --query amazon-efs-utils >/dev/null || retry dnf --assumeyes --quiet install amazon-efs-utils
install -d "$STORE"
if ! grep --quiet " $STORE " /etc/fstab; then
  options="_netdev,nofail,noresvport,tls,iam,accesspoint=$ACCESS_POINT_ID"
  echo "$FILE_SYSTEM_ID:/ $STORE efs $options 0 0" >>/etc/fstab
fi
systemctl daemon-reload
mountpoint --quiet "$STORE" || retry mount "$STORE"

# The databases' disk, which this machine gets once it runs. udev makes a link of an NVMe disk's model and serial number, which
# is the volume's id without its hyphen; device names follow the order in which disks answer.
# https://docs.aws.amazon.com/ebs/latest/userguide/identify-nvme-ebs-device.html
device="/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_${DATABASE_VOLUME_ID//-/}"
install -D -m 0755 /root/engine-room/format-databases.sh "$PROGRAMS/format-databases"
for unit in engine-room.format-databases.service srv-databases.mount; do
  sed "s|@DEVICE@|$device|" "/root/engine-room/$unit" >"$UNITS/$unit"
done
systemctl daemon-reload
systemctl enable --quiet srv-databases.mount

# Images and scratch are read and written faster on the local disks, which the AMI's dlami-nvme.service has made one volume of,
# than on the root disk; they are empty after each stop. Volumes that are kept are on the databases' disk.
if [ -n "$LOCAL_DISKS" ]; then
  retry mountpoint --quiet "$LOCAL_DISKS"
  install -d /etc/docker "$UNITS/docker.service.d"
  LOCAL_DISKS=$LOCAL_DISKS python3 - <<'END'
import json, os, pathlib
path = pathlib.Path("/etc/docker/daemon.json")
settings = json.loads(path.read_text()) if path.exists() else {}
settings["data-root"] = os.environ["LOCAL_DISKS"] + "/docker"
path.write_text(json.dumps(settings, indent=2))
END
  cat >"$UNITS/docker.service.d/engine-room.conf" <<END
[Unit]
After=dlami-nvme.service
[Service]
ExecStartPre=/usr/bin/mountpoint --quiet $LOCAL_DISKS
END
  systemctl daemon-reload
fi

systemctl enable --quiet docker
systemctl restart docker
# All GPUs, and a Docker that can give them to containers.
[ "$(nvidia-smi --list-gpus | wc -l)" -eq "$GPUS" ]
docker info --format '{{json .Runtimes}}' | grep --quiet '"nvidia"'
install -d /var/lib/engine-room
touch /var/lib/engine-room/machine-ready
