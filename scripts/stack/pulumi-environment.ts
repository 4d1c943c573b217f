/** @param url - Of the state. @returns The environment of a Pulumi CLI that works on it. */
export function pulumiEnvironment(url: string): NodeJS.ProcessEnv {
  const hasPassphrase =
    process.env.PULUMI_CONFIG_PASSPHRASE !== undefined ||
    process.env.PULUMI_CONFIG_PASSPHRASE_FILE !== undefined;
  return {
    ...process.env,
    PULUMI_BACKEND_URL: url,
    PULUMI_SKIP_UPDATE_CHECK: "true",
    // Nothing of a local stack is secret; who has secrets in the stack file has set a passphrase.
    ...(hasPassphrase ? {} : { PULUMI_CONFIG_PASSPHRASE: "" }),
  };
}
