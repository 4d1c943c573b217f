/** Every rule by its name; the type sees that none is forgotten. */
import type { PolicyName } from "../../infra/plan/catalogue/policies.ts";
import type { Rule } from "../rule.ts";
import { publicEndpointIsGuarded } from "./endpoints.ts";
import { engineStoreIsProtected } from "./engine-store.ts";
import { gpuPodHasLimits } from "./gpu-pods.ts";
import { iamActionHasNoWildcard } from "./iam-actions.ts";
import { imageHasDigest } from "./image-digests.ts";
import { resourcesAreLabelled } from "./labels.ts";
import { apiIsNotOpenToAll } from "./open-networks.ts";
import { priceIsBelowCap } from "./price.ts";
import { releaseHasFixes } from "./releases.ts";
import { storageIsEncrypted } from "./storage.ts";

export const rules: Readonly<Record<PolicyName, Rule>> = {
  "storage-is-encrypted": storageIsEncrypted,
  "public-endpoint-is-guarded": publicEndpointIsGuarded,
  "api-is-not-open-to-all": apiIsNotOpenToAll,
  "iam-action-has-no-wildcard": iamActionHasNoWildcard,
  "resources-are-labelled": resourcesAreLabelled,
  "price-is-below-cap": priceIsBelowCap,
  "gpu-pod-has-limits": gpuPodHasLimits,
  "image-has-digest": imageHasDigest,
  "engine-store-is-protected": engineStoreIsProtected,
  "release-has-fixes": releaseHasFixes,
};
