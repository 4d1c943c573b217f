/** `platform: docker`: what both tiers say of the machine whose Docker engine runs everything. */
import { z } from "zod";
import { LOOPBACK } from "../plan/catalogue/published-ports.ts";
import { formattedText, ipv4Address } from "./common.ts";

export const dockerHost = z.strictObject({
  uri: formattedText(
    /^(unix:\/\/\/\S+|ssh:\/\/[^\s@-][^\s@]*@[^\s/]+)$/,
    "must be unix:///PATH or ssh://USER@HOST",
    "ssh://ubuntu@gpu.example.org",
  ).default("unix:///var/run/docker.sock"),
  /** Address of the host that the gateway binds to with `gateway.exposure: internal`; all else stays on loopback. */
  address: ipv4Address("must be an IPv4 address of the host", "10.0.0.5").default(LOOPBACK),
});

/** A base by tag or digest; a registry of one's own comes first, so that Docker asks no other. */
const imageReference = formattedText(
  /^[a-z0-9][a-z0-9._-]*(:\d{1,5})?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?$/,
  "must be an image as `docker pull` takes it",
  "mirror.example.org/library/debian:12-slim",
);

const base = imageReference.optional();

/** The images that this project builds. */
export const cpuImages = z
  .strictObject({
    /** Where `npm run images` pushes them; absent: each host builds its own. */
    registry: formattedText(
      /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)*$/,
      "must be a registry, with a path where it wants one and without scheme",
      "ghcr.io/example/engine-room",
    ).optional(),
    /** What they are built on instead of their Dockerfiles' bases: the same ones from a mirror, or ones of one's own. */
    bases: z.strictObject({ services: base, "cpu-models": base }).prefault({}),
  })
  .prefault({});

/** `image` of the stack file is the base of trtllm. */
export const gpuImages = cpuImages
  .unwrap()
  .extend({ bases: z.strictObject({ services: base, encoders: base }).prefault({}) })
  .prefault({});
