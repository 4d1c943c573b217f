import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  formatCidr,
  LONGEST_VPC_PREFIX,
  overlap,
  parseCidr,
  SHORTEST_VPC_PREFIX,
  zoneCidrs,
} from "../../../../infra/plan/aws/subnets.ts";
import { ZONE_LETTERS } from "../../../../infra/plan/catalogue/zones.ts";

/** Any network of a length. */
const network = (min: number, max: number) =>
  fc
    .tuple(fc.nat(2 ** 32 - 1), fc.integer({ min, max }))
    .map(([address, length]) =>
      formatCidr(parseCidr(`${formatCidr({ first: address, size: 1, length: 32 }).split("/")[0]}/${length}`)),
    );
const vpc = network(SHORTEST_VPC_PREFIX, LONGEST_VPC_PREFIX);
const zones = fc.constantFrom(...ZONE_LETTERS);

const all = (cidr: string) =>
  ZONE_LETTERS.flatMap((zone) => {
    const { privateCidr, publicCidr } = zoneCidrs(cidr, zone);
    return [privateCidr, publicCidr];
  });

describe("subnets", () => {
  test.each([
    ["10.64.0.0/16", "a", "10.64.0.0/19", "10.64.192.0/22"],
    ["10.64.0.0/16", "b", "10.64.32.0/19", "10.64.196.0/22"],
    ["10.64.0.0/16", "f", "10.64.160.0/19", "10.64.212.0/22"],
    ["172.16.240.0/20", "a", "172.16.240.0/23", "172.16.252.0/26"],
    ["172.16.240.0/20", "c", "172.16.244.0/23", "172.16.252.128/26"],
  ] as const)("of %s in zone %s are %s and %s", (cidr, zone, privateCidr, publicCidr) => {
    expect(zoneCidrs(cidr, zone)).toEqual({ privateCidr, publicCidr });
  });

  test("of all zones lie inside of the VPC, and none shares an address with another", () => {
    fc.assert(
      fc.property(vpc, (cidr) => {
        const whole = parseCidr(cidr);
        const cidrs = all(cidr);
        for (const one of cidrs.map(parseCidr)) {
          expect(one.first).toBeGreaterThanOrEqual(whole.first);
          expect(one.first + one.size).toBeLessThanOrEqual(whole.first + whole.size);
          expect(one.first % one.size).toBe(0);
        }
        cidrs.forEach((one, index) => {
          for (const other of cidrs.slice(index + 1)) expect(overlap(one, other)).toBe(false);
        });
      }),
    );
  });

  test("leave machines eight times the addresses that load balancers have, who get a /26 at least", () => {
    fc.assert(
      fc.property(vpc, zones, (cidr, zone) => {
        const { privateCidr, publicCidr } = zoneCidrs(cidr, zone);
        expect(parseCidr(privateCidr).size).toBe(8 * parseCidr(publicCidr).size);
        expect(parseCidr(publicCidr).length).toBeLessThanOrEqual(26);
        expect(parseCidr(privateCidr).size).toBeGreaterThanOrEqual(512);
      }),
    );
  });
});

describe("networks", () => {
  test("are written as they are read", () => {
    fc.assert(
      fc.property(network(0, 32), (text) => {
        expect(formatCidr(parseCidr(text))).toBe(text);
      }),
    );
  });

  test.each([
    ["10.0.0.0/16", "10.0.255.0/24", true],
    ["10.0.255.0/24", "10.0.0.0/16", true],
    ["10.0.0.0/16", "10.1.0.0/16", false],
    ["255.255.255.0/24", "255.255.255.255/32", true],
    ["0.0.0.0/0", "203.0.113.7/32", true],
  ])("%s and %s share addresses: %s", (a, b, shared) => {
    expect(overlap(a, b)).toBe(shared);
  });

  test("begin where their length says", () => {
    expect(formatCidr(parseCidr("10.64.17.9/20"))).toBe("10.64.16.0/20");
  });
});
