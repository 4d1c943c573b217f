/** A state that several machines share, such as the runners of a CI: none of them keeps a `.stacks/` of its own. */
import { UserError } from "../errors.ts";

/** Not PULUMI_BACKEND_URL, which many people have set for other projects. */
export const STATE_URL_VARIABLE = "ENGINE_ROOM_STATE_URL";

/**
 * As the CLI takes it: `s3://bucket/folder`, `file:///folder`, `https://api.pulumi.com`. Undefined: each stack keeps its own.
 *
 * @throws UserError where it is no address.
 */
export function sharedStateUrl(environment: NodeJS.ProcessEnv = process.env): string | undefined {
  const url = environment[STATE_URL_VARIABLE];
  if (url === undefined || url === "") return undefined;
  if (URL.canParse(url)) return url;
  throw new UserError(
    `${STATE_URL_VARIABLE} is ${JSON.stringify(url)}, which is no address; write one such as s3://bucket/folder.`,
  );
}

/** @param listing - What `pulumi stack ls --json` prints. Some backends name the organization and the project, too. */
export function isListed(listing: string, stack: string): boolean {
  const stacks = JSON.parse(listing) as readonly { readonly name: string }[];
  return stacks.some(({ name }) => name.split("/").at(-1) === stack);
}
