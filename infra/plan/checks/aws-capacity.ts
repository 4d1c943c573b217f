/** Machines of AWS that are borrowed, or paid for beforehand. */
import { machineZones } from "../aws/network.ts";
import { awsCheck, type Check, type Remark } from "./finding.ts";
import { oneOf } from "./words.ts";

export const awsCapacityChecks = {
  spotIsNotReserved: awsCheck(["pools.capacity", "pools.capacityReservationId"], ({ pools }) =>
    pools.flatMap(({ capacity, capacityReservationId }, index): readonly Remark[] => {
      if (capacity !== "spot" || capacityReservationId === undefined) return [];
      return [
        {
          path: `pools[${index}].capacityReservationId`,
          reason: `A reservation holds on-demand machines, and with capacity: spot the pool asks for others: ${capacityReservationId} would be paid for and never used.`,
          fix: "Write capacity: onDemand, or remove it.",
        },
      ];
    }),
  ),

  reservationHasZone: awsCheck(
    ["network", "compute", "pools.zones", "pools.capacityReservationId"],
    (config) => {
      if (config.compute !== "eks") return [];
      return config.pools.flatMap(({ capacityReservationId, zones }, index): readonly Remark[] => {
        const all = zones ?? machineZones(config.network);
        if (capacityReservationId === undefined || all.length === 1) return [];
        return [
          {
            path: `pools[${index}].zones`,
            reason: `A reservation is in one zone, and machines of the pool may be started in ${oneOf(all)}, where AWS refuses those that ${capacityReservationId} does not hold.`,
            fix: "Write the zone of the reservation alone.",
          },
        ];
      });
    },
  ),

  // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_ChangingDisableAPITermination.html, Considerations.
  spotIsNotRetained: awsCheck(["compute", "retain", "pools.capacity"], ({ compute, retain, pools }) => {
    if (compute !== "ec2" || retain.length === 0) return [];
    return pools.flatMap(({ capacity }, index): readonly Remark[] => {
      if (capacity !== "spot") return [];
      return [
        {
          path: `pools[${index}].capacity`,
          reason: `What \`retain\` names (${oneOf(retain)}) is protected from termination, and EC2 protects no spot machine: \`up\` would fail.`,
          fix: "Write capacity: onDemand, or `retain: []`.",
        },
      ];
    });
  }),

  // A persistent request could be stopped; the provider leaves it when the machine goes, and it starts another one
  // (issue 38142 of terraform-provider-aws). https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/stop-spot-instance.html
  spotMachineStays: awsCheck(["compute", "pools.capacity"], ({ compute, pools }) => {
    if (compute !== "ec2") return [];
    return pools.flatMap(({ capacity }, index): readonly Remark[] => {
      if (capacity !== "spot") return [];
      return [
        {
          severity: "warning",
          path: `pools[${index}].capacity`,
          reason:
            "A spot machine can't be stopped: `npm run sleep` and another instanceType fail, and when EC2 takes it back, documents and images on its disk are gone; `npm run up` then makes another one.",
          fix: "Write capacity: onDemand, or keep nothing on it; engines are in the engine store either way.",
        },
      ];
    });
  }),
} satisfies Record<string, Check>;
