/** Providers themselves: replacing one replaces all that it made. */
import type { ReplacementRow } from "./types.ts";

export const providerRows: Readonly<Record<string, ReplacementRow>> = {
  // `DiffConfig` of `provider/pkg/provider/provider.go`: kubeconfig, context and cluster replace where they lead to another
  // cluster, which the kubeconfig alone can tell.
  "pulumi:providers:kubernetes": {
    replaces: ["renderYamlToDirectory"],
    updates: [
      "deleteUnreachable",
      "enableConfigMapMutable",
      "enableSecretMutable",
      "enableServerSideApply",
      "helmReleaseSettings",
      "kubeClientSettings",
      "namespace",
      "skipUpdateUnreachable",
      "suppressDeprecationWarnings",
      "upsertExistingObjects",
    ],
    deletesFirst: () => false,
  },
  // Another account or region has nothing of what was made; what the provider calls such a change is not known here.
  "pulumi:providers:aws": {
    replaces: [],
    updates: ["allowedAccountIds", "maxRetries", "retryMode"],
    deletesFirst: () => false,
  },
  // Another host has nothing of what was made; the provider calls that an update, and `up` then finds all of it gone.
  "pulumi:providers:docker": {
    replaces: [],
    updates: ["sshOpts"],
    deletesFirst: () => false,
  },
};
