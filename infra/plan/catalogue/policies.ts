/** Rules that a stack's resources keep, by name: policy/ has what each looks at, docs/policies.md how far it sees. */

export const POLICY_NAMES = [
  "storage-is-encrypted",
  "public-endpoint-is-guarded",
  "api-is-not-open-to-all",
  "iam-action-has-no-wildcard",
  "resources-are-labelled",
  "price-is-below-cap",
  "gpu-pod-has-limits",
  "image-has-digest",
  "engine-store-is-protected",
  "release-has-fixes",
] as const;
export type PolicyName = (typeof POLICY_NAMES)[number];

/** `mandatory` ends a preview or an update, `advisory` is only said, `off` is not looked at. */
export const POLICY_LEVELS = ["mandatory", "advisory", "off"] as const;
export type PolicyLevel = (typeof POLICY_LEVELS)[number];
