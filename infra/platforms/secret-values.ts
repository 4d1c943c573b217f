/** Secrets of the stack file. The plan has none, so they are read from the stack's configuration here. */
import * as pulumi from "@pulumi/pulumi";
import { isSecure } from "../problems.ts";

/** @param paths - Where each stands in the stack file, such as `hub.token`; by the name that is given back. */
export function secretValues<Name extends string>(
  paths: Readonly<Record<Name, string>>,
  names: Iterable<Name>,
): Partial<Record<Name, pulumi.Output<string>>> {
  const config = new pulumi.Config();
  const values = [...new Set(names)].map((name) => {
    const [key = "", ...path] = paths[name].split(".");
    return [name, config.requireSecretObject<unknown>(key).apply((value) => textAt(value, path))];
  });
  return Object.fromEntries(values);
}

function textAt(value: unknown, path: readonly string[]): string {
  const found = path.reduce<unknown>((inner, key) => (inner as Record<string, unknown>)[key], value);
  // Encrypted where nothing is deployed, and so nobody decrypts: a rendered stack, which shows no secret anyway, yet has
  // another one after it changed.
  if (isSecure(found)) return found.secure;
  return typeof found === "string" ? found : "";
}
