/** What the tests of fetching share: the fetch itself with the usual options, and sites that are closed after each test. */
import type { RequestListener } from "node:http";
import { afterEach } from "vitest";
import {
  type FetchedImage,
  type FetchImageOptions,
  fetchImage,
} from "../../../containers/services/gateway/src/images/fetch-image.ts";
import { ImageError } from "../../../containers/services/gateway/src/images/image-error.ts";
import { ImageHosts } from "../../../containers/services/gateway/src/images/image-hosts.ts";
import {
  DEFAULT_IMAGE_LIMITS,
  type ImageLimits,
} from "../../../containers/services/gateway/src/images/limits.ts";
import { type Site, type SiteOptions, startSite } from "./web.ts";

/** The decoder is not asked here. */
export const BYTES = Buffer.from("these bytes stand for a picture");

const sites: Site[] = [];

/** Starts a site that is closed after the test. */
export async function site(answer: RequestListener, options?: SiteOptions): Promise<Site> {
  const started = await startSite(answer, options);
  sites.push(started);
  return started;
}

afterEach(async () => {
  await Promise.all(sites.splice(0).map((started) => started.close()));
});

export interface Setting extends Partial<Omit<FetchImageOptions, "hosts" | "limits">> {
  readonly hosts?: readonly string[];
  readonly limits?: Partial<ImageLimits>;
}

/** Fetches with the defaults; the URL's own host is allowed unless the setting names others. */
export function get(url: string, { hosts, limits, signal, network }: Setting): Promise<FetchedImage> {
  return fetchImage(url, {
    hosts: new ImageHosts(hosts ?? [new URL(url).host]),
    limits: { ...DEFAULT_IMAGE_LIMITS, ...limits },
    signal: signal ?? new AbortController().signal,
    ...(network && { network }),
  });
}

/** The ImageError that a fetch ends with. @throws when it ends otherwise. */
export async function refusal(url: string, setting: Setting): Promise<ImageError> {
  const result = await get(url, setting).catch((error: unknown) => error);
  if (result instanceof ImageError) return result;
  throw result instanceof Error ? result : new Error("it was fetched");
}
