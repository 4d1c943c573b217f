import { describe, expect, test } from "vitest";
import type { DockerImage, ImageName } from "../../../../infra/plan/docker/types.ts";
import { clusterImages } from "../../../../infra/plan/kubernetes/images.ts";
import { SHA256 } from "./stacks.ts";

const triton = { release: "25.07" };
const locked = (name: ImageName, reference: string): DockerImage => ({ kind: "locked", name, reference });
const missing = (name: ImageName): DockerImage => ({
  kind: "build",
  name,
  tag: `engine-room/${name}:local`,
  contentHash: "abcdef0123456789".repeat(4),
  dockerfile: "Dockerfile",
  buildArguments: {},
});
const services = locked("services", `r.example.org/services@sha256:${SHA256}`);

describe("images of a cluster", () => {
  test("are pulled by the digests of the lock file", () => {
    expect(clusterImages([services], { triton, registry: null, isMirror: false })).toEqual({
      images: [{ name: "services", reference: `r.example.org/services@sha256:${SHA256}` }],
      problems: [],
    });
  });

  test("are pulled from a registry that has copies of them, but for those of others", () => {
    const mongo = locked("mongo", `docker.io/library/mongo@sha256:${SHA256}`);
    const { images } = clusterImages([services, mongo], {
      triton,
      registry: "own.example.org/room",
      isMirror: true,
    });
    expect(images.map(({ reference }) => reference)).toEqual([
      `own.example.org/room/services@sha256:${SHA256}`,
      `docker.io/library/mongo@sha256:${SHA256}`,
    ]);
  });

  test("that were never pushed are one problem, and stand under the tag that a push gives them", () => {
    const { images, problems } = clusterImages([services, missing("trtllm"), missing("encoders")], {
      triton,
      registry: "r.example.org/room",
      isMirror: false,
    });
    expect(images.map(({ reference }) => reference).slice(1)).toEqual([
      "r.example.org/room/trtllm:25.07-abcdef012345",
      "r.example.org/room/encoders:25.07-abcdef012345",
    ]);
    expect(problems).toEqual([
      {
        path: "(images.lock.json)",
        value: "r.example.org/room",
        reason: expect.stringContaining("none of this content for trtllm, encoders."),
        fix: expect.stringMatching(/^Run `npm run images -- --push`/),
      },
    ]);
  });

  test("need a registry before they can be pushed", () => {
    const { problems } = clusterImages([missing("services")], { triton, registry: null, isMirror: false });
    expect(problems).toMatchObject([
      { path: "images.registry", fix: expect.stringMatching(/^Name a registry/) },
    ]);
  });

  test("of others count as missing while only their tag is known", () => {
    const { images, problems } = clusterImages([locked("mongo", "docker.io/library/mongo:8.0.26")], {
      triton,
      registry: null,
      isMirror: false,
    });
    expect(images).toEqual([{ name: "mongo", reference: "docker.io/library/mongo:8.0.26" }]);
    expect(problems).toMatchObject([{ path: "(images.lock.json)" }]);
  });
});
