/** How much each rule matters, by the kind of a stack; a stack file may say otherwise, rule by rule. */
import type { PolicyLevel, PolicyName } from "../infra/plan/catalogue/policies.ts";

/**
 * `local`: this machine, by `platform: local`. `preview`: lives as long as a pull request. `lasting`: everything else, such as
 * production.
 */
type StackKind = "local" | "preview" | "lasting";

/** Stacks of a pull request: `preview-42`, `pr-42`. */
const PREVIEW_STACK = /^(pr|preview)-/;

const levels: Readonly<Record<PolicyName, Readonly<Record<StackKind, PolicyLevel>>>> = {
  "storage-is-encrypted": { local: "advisory", preview: "mandatory", lasting: "mandatory" },
  // Whoever finds a preview can use it as well.
  "public-endpoint-is-guarded": { local: "advisory", preview: "mandatory", lasting: "mandatory" },
  "api-is-not-open-to-all": { local: "advisory", preview: "mandatory", lasting: "mandatory" },
  "iam-action-has-no-wildcard": { local: "advisory", preview: "mandatory", lasting: "mandatory" },
  // By the labels a preview is found and deleted.
  "resources-are-labelled": { local: "advisory", preview: "mandatory", lasting: "mandatory" },
  "price-is-below-cap": { local: "advisory", preview: "mandatory", lasting: "mandatory" },
  "gpu-pod-has-limits": { local: "advisory", preview: "mandatory", lasting: "mandatory" },
  // A preview may run images that were built for it alone.
  "image-has-digest": { local: "advisory", preview: "advisory", lasting: "mandatory" },
  // A preview is made to be thrown away.
  "engine-store-is-protected": { local: "advisory", preview: "off", lasting: "mandatory" },
  // Every release that builds engines has lost its upstream, and they are what this project serves best.
  "release-has-fixes": { local: "advisory", preview: "advisory", lasting: "advisory" },
};

/** @param own - `policies.levels` of the stack file. */
export function policyLevel(
  policy: PolicyName,
  stack: { readonly name: string; readonly platform: string },
  own: Readonly<Partial<Record<PolicyName, PolicyLevel | undefined>>> = {},
): PolicyLevel {
  return own[policy] ?? levels[policy][kindOf(stack)];
}

function kindOf({ name, platform }: { readonly name: string; readonly platform: string }): StackKind {
  if (platform === "local") return "local";
  return PREVIEW_STACK.test(name) ? "preview" : "lasting";
}
