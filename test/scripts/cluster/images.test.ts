import { expect, test } from "vitest";
import type { ClusterImage, KubernetesStack } from "../../../infra/plan/kubernetes/types.ts";
import type { ManifestAnswer } from "../../../scripts/images/registry.ts";
import { imageFindings, readImages } from "../../../scripts/preflight/cluster-images.ts";

const DIGEST = `@sha256:${"a".repeat(64)}`;
const IMAGES: readonly ClusterImage[] = [
  { name: "trtllm", reference: `registry.local:5000/room/trtllm:25.07${DIGEST}` },
  { name: "services", reference: `registry.local:5000/room/services:1${DIGEST}` },
  { name: "mongo", reference: `docker.io/library/mongo${DIGEST}` },
];
const THERE: ManifestAnswer = { kind: "there" };

async function findings(
  answer: ManifestAnswer,
  {
    pullSecrets = [],
    images = IMAGES,
  }: { pullSecrets?: readonly string[]; images?: readonly ClusterImage[] } = {},
) {
  // Docker Hub has all that is wanted of it.
  const ask = async (reference: string) => (reference.startsWith("docker.io") ? THERE : answer);
  const stack = { images, imagePullSecrets: pullSecrets } as unknown as KubernetesStack;
  return imageFindings({ stack, imageProblems: [] }, await readImages(images, ask)).map(
    ({ severity, what, why, fix }) => `${severity} ${what} ${why} ${fix}`,
  );
}

test("registries that have all of it", async () => {
  expect(await findings(THERE)).toEqual([]);
});

test.each([
  [
    "missing, for a stranger",
    { kind: "missing", isAnonymous: true },
    [],
    /^problem .* does not have trtllm, services\..*images -- --push/,
  ],
  [
    "missing, for a stranger to a registry that knows the machines",
    { kind: "missing", isAnonymous: true },
    ["pull"],
    /^warning .*or hides it.*docker login registry\.local:5000/,
  ],
  ["missing, for the user", { kind: "missing", isAnonymous: false }, ["pull"], /^problem .* does not have/],
  [
    "refused to a stranger",
    { kind: "refused", isAnonymous: true },
    [],
    /^warning .*does not show trtllm, services to you\. .*without credentials.*machines may have others.*none is named in images\.pullSecrets/,
  ],
  [
    "refused to the user",
    { kind: "refused", isAnonymous: false },
    ["pull"],
    /^warning .*with the credentials of Docker's configuration.*they have pull/,
  ],
  [
    "a registry that is away",
    { kind: "silent", words: "fetch failed: ECONNREFUSED" },
    [],
    /^warning .*can't be asked for trtllm, services from here\. fetch failed: ECONNREFUSED\. /,
  ],
] as const)("%s: one finding for the registry", async (_, answer, pullSecrets, words) => {
  const found = await findings(answer, { pullSecrets });
  expect(found).toHaveLength(1);
  expect(found[0]).toMatch(words);
});

test("nobody is asked for an image that was never pushed, and no registry of documents", async () => {
  const images: readonly ClusterImage[] = [
    { name: "trtllm", reference: "registry.local:5000/room/trtllm:25.07" },
    { name: "services", reference: `registry.example.org/room/services${DIGEST}` },
  ];
  const asked: string[] = [];
  await readImages(images, async (reference) => {
    asked.push(reference);
    return THERE;
  });
  expect(asked).toEqual([]);
  expect(await findings({ kind: "missing", isAnonymous: true }, { images })).toEqual([
    expect.stringMatching(/^problem No registry answers at registry\.example\.org\./),
  ]);
});
