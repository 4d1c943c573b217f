/** What a stack's account pays by the hour besides machines and disks, where the catalogue has a price. */
import { servicePrices } from "../catalogue/prices.ts";
import type { GpuStackSpec } from "../spec.ts";
import type { CostLine } from "./types.ts";

/** One line a service; a platform that rents none has none. */
export function serviceLines({
  services,
  region,
}: Pick<GpuStackSpec, "services" | "region">): readonly CostLine[] {
  return services.map(({ service, count }) => {
    const price = servicePrices.find((row) => row.service === service && row.region === region);
    const usd = price?.hourlyUsd ?? null;
    return {
      what: service,
      arithmetic:
        usd === null
          ? `${count}, without what it handles`
          : `${count} × ${usd} USD an hour (${price?.asOf}), without what it handles`,
      hourlyUsd: usd === null ? null : Math.round(count * usd * 10_000) / 10_000,
    };
  });
}
