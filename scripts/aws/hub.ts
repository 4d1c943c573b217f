/** Whether the model hub gives the files of a repository to a token's owner: HEAD of a small file. The token is never shown. */
import { errorWords } from "../errors.ts";

export type HubAnswer =
  | { readonly kind: "open" }
  /** 401: no token, or none that the hub knows. 403: its owner has not accepted the licence, or waits for consent. */
  | { readonly kind: "closed"; readonly status: number }
  | { readonly kind: "silent"; readonly words: string };

const TIMEOUT_MILLISECONDS = 15_000;

/** As huggingface_hub does: HF_ENDPOINT names another hub. */
function endpoint(): string {
  return (process.env.HF_ENDPOINT ?? "https://huggingface.co").replace(/\/$/, "");
}

/** @param revision - A commit; null: the newest. @param token - null: nobody's. */
export async function askHub(
  repository: string,
  revision: string | null,
  token: string | null,
): Promise<HubAnswer> {
  try {
    const response = await fetch(`${endpoint()}/${repository}/resolve/${revision ?? "main"}/config.json`, {
      method: "HEAD",
      // A redirect leads to the file: who is led has access, and the storage needs no token.
      redirect: "manual",
      headers: token === null ? {} : { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(TIMEOUT_MILLISECONDS),
    });
    const { status } = response;
    if (status < 400) return { kind: "open" };
    if (status === 401 || status === 403) return { kind: "closed", status };
    return { kind: "silent", words: `it answers with status ${status}` };
  } catch (error) {
    return { kind: "silent", words: errorWords(error) };
  }
}
