/** What commands ask EC2 about where there is room: zones of a region, and reservations. The SDK loads with the first question. */
import { type Answer, ask, clientSettings } from "./session.ts";

const sdk = () => import("@aws-sdk/client-ec2");

async function client(region: string) {
  const { EC2Client } = await sdk();
  return new EC2Client(clientSettings(region));
}

/** A zone that the account may use. */
export interface ZoneReading {
  /** With the region: `us-east-1a`. Which place that is differs between accounts. */
  readonly name: string;
  /** The same place in all accounts: `use1-az3`. */
  readonly id: string;
  /** `available`, `constrained`, `impaired`, `unavailable`. */
  readonly state: string;
}

/** Those of the region, without local zones and those of networks of phones. */
export async function availabilityZones(region: string): Promise<Answer<readonly ZoneReading[]>> {
  const { DescribeAvailabilityZonesCommand } = await sdk();
  const ec2 = await client(region);
  const Filters = [{ Name: "zone-type", Values: ["availability-zone"] }];
  return ask("ec2:DescribeAvailabilityZones", async (options) => {
    const { AvailabilityZones = [] } = await ec2.send(
      new DescribeAvailabilityZonesCommand({ Filters }),
      options,
    );
    return AvailabilityZones.map(({ ZoneName = "", ZoneId = "", State = "" }) => ({
      name: ZoneName,
      id: ZoneId,
      state: State,
    }));
  });
}

export interface ReservationReading {
  readonly instanceType: string;
  /** With the region. */
  readonly zone: string;
  /** `active`, `scheduled`, `expired`, `cancelled`. */
  readonly state: string;
  readonly isCapacityBlock: boolean;
  readonly machines: number;
  /** Those of them that nobody uses. */
  readonly freeMachines: number;
}

/** `absent` where the account has no such reservation, and none is shared with it. */
export async function capacityReservation(region: string, id: string): Promise<Answer<ReservationReading>> {
  const { DescribeCapacityReservationsCommand } = await sdk();
  const ec2 = await client(region);
  const answer = await ask("ec2:DescribeCapacityReservations", async (options) => {
    const { CapacityReservations = [] } = await ec2.send(
      new DescribeCapacityReservationsCommand({ CapacityReservationIds: [id] }),
      options,
    );
    return CapacityReservations[0];
  });
  if (answer.kind !== "answer") return answer;
  if (answer.value === undefined) return { kind: "absent" };
  const { InstanceType, AvailabilityZone, State, ReservationType } = answer.value;
  return {
    kind: "answer",
    value: {
      instanceType: InstanceType ?? "",
      zone: AvailabilityZone ?? "",
      state: State ?? "",
      isCapacityBlock: ReservationType === "capacity-block",
      machines: answer.value.TotalInstanceCount ?? 0,
      freeMachines: answer.value.AvailableInstanceCount ?? 0,
    },
  };
}
