/** Names and folders that the parts of an instance agree on. */
import type { DockerContainer } from "../../docker/types.ts";

/** Where the units are that systemd is told of by hand. */
export const UNIT_FOLDER = "/etc/systemd/system";
/** Files of each container, in a folder of its own. */
export const FILES_FOLDER = "/etc/engine-room";
/** Programs of the setup units. */
export const PROGRAM_FOLDER = "/opt/engine-room";
/** What outlives a start of the machine, on its root disk: what is made again on another machine. */
export const STATE_FOLDER = "/var/lib/engine-room";
/** What outlives the machine: documents, on a disk of their own. */
export const DATABASE_FOLDER = "/srv/databases";
/** Unit that mounts it: systemd wants it to have the folder's name. */
export const DATABASE_MOUNT = "srv-databases.mount";
/** In memory, and empty after each start of the machine. */
export const RUN_FOLDER = "/run/engine-room";
export const SECRET_FOLDER = `${RUN_FOLDER}/secrets`;
/** Made by the user data when all of it succeeded. */
export const READY_FILE = `${STATE_FOLDER}/machine-ready`;

/** User of builders, servers and gateway, in every image of this project. */
export const IMAGE_USER_ID = 1000;

/** Begin of every unit's name. */
const PREFIX = "engine-room";

/** Of containers: no name in the stack's network has a dot, so none is that of a setup unit. */
export function unitName({ networkAlias }: Pick<DockerContainer, "networkAlias">): string {
  return `${PREFIX}-${networkAlias}.service`;
}

/** What every container needs before it starts. */
export const SETUP_UNITS = {
  secrets: `${PREFIX}.secrets.service`,
  network: `${PREFIX}.network.service`,
  images: `${PREFIX}.images.service`,
} as const;
