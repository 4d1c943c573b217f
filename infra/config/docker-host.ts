/** `platform: docker`: what both tiers say of the machine whose Docker engine runs everything. */
import { z } from "zod";
import { LOOPBACK } from "../plan/catalogue/published-ports.ts";
import { formattedText } from "./common.ts";

const OCTET = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";

export const dockerHost = z.strictObject({
  uri: formattedText(
    /^(unix:\/\/\/\S+|ssh:\/\/[^\s@]+@[^\s/]+)$/,
    "must be unix:///PATH or ssh://USER@HOST",
    "ssh://ubuntu@gpu.example.org",
  ).default("unix:///var/run/docker.sock"),
  /** Address of the host that the gateway binds to with `gateway.exposure: internal`; all else stays on loopback. */
  address: formattedText(
    new RegExp(`^${OCTET}(\\.${OCTET}){3}$`),
    "must be an IPv4 address of the host",
    "10.0.0.5",
  ).default(LOOPBACK),
});

/** The images that this project builds. */
export const images = z
  .strictObject({
    /** Where `npm run images` pushes them; absent: each host builds its own. */
    registry: formattedText(
      /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)*$/,
      "must be a registry, with a path where it wants one and without scheme",
      "ghcr.io/example/engine-room",
    ).optional(),
  })
  .prefault({});
