/** Helpers of the tests of images: the fetch with the usual options, its refusals, and sites that are closed after each test. */
import type { RequestListener } from "node:http";
import { afterEach } from "vitest";
import {
  fetchImage,
  INTERNET,
  type Network,
  parseImageHost,
} from "../../../containers/services/gateway/src/images/fetch-image.ts";
import {
  DEFAULT_IMAGE_LIMITS,
  ImageError,
  type ImageLimits,
} from "../../../containers/services/gateway/src/images/limits.ts";
import { type Site, type SiteOptions, startSite } from "./web.ts";

/** Content that is not decoded in these tests. */
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

export interface Setting {
  readonly hosts?: readonly string[];
  readonly limits?: Partial<ImageLimits>;
  readonly signal?: AbortSignal;
  readonly network?: Network;
}

/** Parsed entries of gateway.imageHosts. @throws Error for a wrong entry. */
export function hostsOf(entries: readonly string[]): string[] {
  return entries.map((entry) => {
    const host = parseImageHost(entry);
    if (host === undefined) throw new Error(`${entry} is not an image host`);
    return host;
  });
}

/** Fetches with the defaults; the URL's own host is allowed unless the setting names others. */
export function get(url: string, { hosts, limits, signal, network }: Setting): Promise<Buffer> {
  const rules = {
    hosts: hostsOf(hosts ?? [new URL(url).host]),
    limits: { ...DEFAULT_IMAGE_LIMITS, ...limits },
    network: network ?? INTERNET,
  };
  return fetchImage(url, rules, signal ?? new AbortController().signal);
}

/** Refusal of some work. @throws its other errors, and an Error when it is accepted. */
export async function refusalOf(work: () => unknown) {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof ImageError)) throw error;
    const { message, cause, details } = error;
    return { message, cause, status: details.status, code: details.code };
  }
  throw new Error("it was accepted");
}

/** Refusal of a fetch. */
export function refusal(url: string, setting: Setting) {
  return refusalOf(() => get(url, setting));
}
