/** A stack file as a plan may hold it. Plans are printed, compared and recorded: no secret is ever in one. */
import type { AwsConfig } from "../../config/aws-stacks.ts";

/** What stands where a secret was: only that there is one matters. */
const MASK = "[secret]";

/** The same with every secret masked. */
export function withoutSecrets<C extends AwsConfig>(config: C): C {
  const { hub, externalDatabases } = config;
  return {
    ...config,
    hub: masked(hub, "token"),
    ...(externalDatabases === undefined
      ? {}
      : {
          externalDatabases: {
            ...externalDatabases,
            mongo: masked(externalDatabases.mongo, "uri"),
            vector: masked(externalDatabases.vector, "apiKey"),
          },
        }),
  };
}

function masked<T extends object, K extends keyof T>(holder: T, key: K): T {
  return holder[key] === undefined ? holder : { ...holder, [key]: MASK };
}
