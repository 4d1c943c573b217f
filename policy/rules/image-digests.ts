/**
 * Images are named by what they hold: a tag may mean another image tomorrow, and an engine loads only in the image that
 * built it. On a Docker host what was built there is named by its id, which is as exact as a digest.
 */
import { podContainers, podSpec } from "../containers.ts";
import { type CheckedResource, type Finding, type Rule, UNKNOWN, undecided } from "../rule.ts";
import { at, textAt } from "../values.ts";

const EXACT = /(@|^)sha256:[0-9a-f]{64}$/;

const FIX =
  "Run `npm run images -- --push` where Docker is, which writes digests to images.lock.json; for an image of others add `@sha256:…` to its name.";

function imageFinding(resource: CheckedResource, who: string, image: unknown): readonly Finding[] {
  if (image === UNKNOWN) return [{ resource, ...undecided(`The image of ${who.replace("The", "the")}`) }];
  if (typeof image === "string" && EXACT.test(image)) return [];
  return [
    {
      resource,
      reason: `${who} runs ${typeof image === "string" ? image : "no image"}, which names no digest.`,
      fix: FIX,
    },
  ];
}

function dockerFindings(
  resource: CheckedResource,
  byUrn: ReadonlyMap<string, CheckedResource>,
): readonly Finding[] {
  const { type, name, inputs, propertyDependencies } = resource;
  if (type === "docker:index/container:Container") {
    const sources = propertyDependencies.image ?? [];
    const isOfImage = sources.some((urn) => byUrn.get(urn)?.type === "docker:index/remoteImage:RemoteImage");
    // The id of an image that is looked at itself.
    if (inputs.image === UNKNOWN && isOfImage) return [];
    return imageFinding(resource, `The container ${name}`, inputs.image);
  }
  if (type === "docker:index/remoteImage:RemoteImage" && inputs.build === undefined)
    return imageFinding(resource, `The image ${name}`, inputs.name);
  return [];
}

export const imageHasDigest: Rule = {
  description: "Containers run images that are named by digest or id.",
  scope: "stack",
  check({ resources }) {
    const byUrn = new Map(resources.map((resource) => [resource.urn, resource]));
    return resources.flatMap((resource) => {
      const spec = podSpec(resource);
      if (spec === UNKNOWN) return [{ resource, ...undecided("the pod") }];
      const ofPods = podContainers(spec).flatMap((container) =>
        imageFinding(
          resource,
          `The container ${textAt(container, "name") ?? "without a name"}`,
          at(container, "image"),
        ),
      );
      return [...ofPods, ...dockerFindings(resource, byUrn)];
    });
  },
};
