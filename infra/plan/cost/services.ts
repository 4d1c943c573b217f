/** What a stack's account pays by the hour besides its pools and disks, where the catalogue has a price. */
import { onDemandHourlyUsd, servicePrice } from "../catalogue/prices.ts";
import type { GpuStackSpec } from "../spec.ts";
import { staying } from "./lines.ts";
import { tenThousandths } from "./sums.ts";
import type { CostLine } from "./types.ts";

/** One line a service, and one for machines that are always there; a platform that rents none has none. */
export function serviceLines({
  rented,
  region,
}: Pick<GpuStackSpec, "rented" | "region">): readonly CostLine[] {
  return [
    ...rented.machines.map((machines) => machinesLine(machines, region)),
    ...rented.services.map((service) => serviceLine(service, region)),
  ];
}

/** Whether a price of the table of machines is in those lines. */
export function hasPricedMachines({ rented, region }: Pick<GpuStackSpec, "rented" | "region">): boolean {
  return (
    region !== null &&
    rented.machines.some(({ instanceType }) => onDemandHourlyUsd(region, instanceType) !== null)
  );
}

function machinesLine(
  { what, instanceType, count }: GpuStackSpec["rented"]["machines"][number],
  region: string | null,
): CostLine {
  const usd = region === null ? null : onDemandHourlyUsd(region, instanceType);
  const words =
    usd === null
      ? `not in the price table of ${region}`
      : `${usd} USD an hour each, on demand in ${region}, always`;
  return staying({
    what,
    arithmetic: `${count} × ${instanceType}, ${words}`,
    hourlyUsd: usd === null ? null : tenThousandths(count * usd),
  });
}

function serviceLine(
  { service, count, words }: GpuStackSpec["rented"]["services"][number],
  region: string | null,
): CostLine {
  const price = servicePrice(service, region);
  const number = words === undefined ? `${count}` : `${words}: ${count}`;
  if (price === undefined)
    return staying({ what: service, arithmetic: `${number}, without what it handles`, hourlyUsd: null });
  const { hourlyUsd, asOf } = price;
  return staying({
    what: service,
    arithmetic: `${number} × ${hourlyUsd} USD an hour (${asOf}), without what it handles`,
    hourlyUsd: tenThousandths(count * hourlyUsd),
  });
}
