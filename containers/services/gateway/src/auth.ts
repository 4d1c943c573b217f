/** API keys: Bearer tokens, of which only the SHA-256 is known here. */
import { createHash, timingSafeEqual } from "node:crypto";
import type { ApiKeyConfig } from "./config.ts";
import { ApiError } from "./errors.ts";

/** Longest token that is looked at; a real key is far shorter. */
const LONGEST_KEY_BYTES = 512;

interface KnownKey {
  readonly name: string;
  readonly digest: Buffer;
}

/** Says whose key a request carries. */
export class KeyRing {
  readonly #keys: readonly KnownKey[];

  constructor(keys: readonly ApiKeyConfig[]) {
    this.#keys = keys.map(({ name, sha256 }) => ({ name, digest: Buffer.from(sha256, "hex") }));
  }

  /** Whether everybody is let in, because no key is configured. */
  get isOpen(): boolean {
    return this.#keys.length === 0;
  }

  /**
   * Name of the key's owner.
   * @param authorization - The header as it came.
   * @throws ApiError 401 when the header is missing, is no Bearer token, or holds an unknown key.
   */
  ownerOf(authorization: string | undefined): string {
    if (authorization === undefined) {
      throw unauthorized("No API key was given; send it as Authorization: Bearer KEY.", "missing_api_key");
    }
    const token = /^Bearer +(\S+) *$/i.exec(authorization)?.[1];
    if (token === undefined || token.length > LONGEST_KEY_BYTES) {
      throw unauthorized(
        "The Authorization header is no Bearer token; send Authorization: Bearer KEY.",
        "invalid_api_key",
      );
    }
    const owner = this.#find(createHash("sha256").update(token).digest());
    if (owner === undefined)
      throw unauthorized("The API key is not known here; check it for typing errors.", "invalid_api_key");
    return owner;
  }

  /** Compares with every key, also after a match, so that the time tells neither a prefix nor a position. */
  #find(digest: Buffer): string | undefined {
    let owner: string | undefined;
    for (const key of this.#keys) {
      if (timingSafeEqual(key.digest, digest)) owner = key.name;
    }
    return owner;
  }
}

function unauthorized(message: string, code: string): ApiError {
  return new ApiError(message, { status: 401, type: "authentication_error", code });
}
