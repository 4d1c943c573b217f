/** What a stack's account pays by the hour besides its pools and disks, where the catalogue has a price. */
import { onDemandHourlyUsd, servicePrice } from "../catalogue/prices.ts";
import type { GpuStackSpec } from "../spec.ts";
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
  return always(what, `${count} × ${instanceType}, ${words}`, usd === null ? null : count * usd);
}

function serviceLine(
  { service, count, words }: GpuStackSpec["rented"]["services"][number],
  region: string | null,
): CostLine {
  const price = servicePrice(service, region);
  const number = words === undefined ? `${count}` : `${words}: ${count}`;
  if (price === undefined) return always(service, `${number}, without what it handles`, null);
  const { hourlyUsd, asOf } = price;
  return always(
    service,
    `${number} × ${hourlyUsd} USD an hour (${asOf}), without what it handles`,
    count * hourlyUsd,
  );
}

/** A line of what stays while the stack sleeps. */
function always(what: string, arithmetic: string, usd: number | null): CostLine {
  const hourlyUsd = usd === null ? null : tenThousandths(usd);
  return { what, arithmetic, hourlyUsd, asleepHourlyUsd: hourlyUsd };
}
