/** Addresses of a network's subnets. A zone has the same ones whatever other zones there are. */
import { ZONE_LETTERS, type ZoneLetter } from "../catalogue/aws.ts";

/** An IPv4 network. */
interface Cidr {
  /** First address, as a number of 32 bits. */
  readonly first: number;
  /** Addresses. */
  readonly size: number;
  /** Bits of the prefix. */
  readonly length: number;
}

/** With a longer prefix a zone's pods and machines would have fewer than 512 addresses. */
export const LONGEST_VPC_PREFIX = 20;
/** AWS's limit: https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html */
export const SHORTEST_VPC_PREFIX = 16;

/** An eighth of the network for the machines of each zone: every pod takes an address of it. */
const PRIVATE_BITS = 3;
/** The seventh eighth, divided in eight again, for load balancers and NAT gateways; the last eighth is free. */
const PUBLIC_BITS = 6;
const FIRST_PUBLIC = 6 * 2 ** (PUBLIC_BITS - PRIVATE_BITS);

/** Subnets of one zone, in a VPC of a /16 to a /20. */
export function zoneCidrs(
  vpc: string,
  zone: ZoneLetter,
): { readonly privateCidr: string; readonly publicCidr: string } {
  const network = parseCidr(vpc);
  const slot = ZONE_LETTERS.indexOf(zone);
  return {
    privateCidr: formatCidr(part(network, PRIVATE_BITS, slot)),
    publicCidr: formatCidr(part(network, PUBLIC_BITS, FIRST_PUBLIC + slot)),
  };
}

/** One of the 2^bits equal parts of a network. */
function part({ first, size, length }: Cidr, bits: number, index: number): Cidr {
  const partSize = size / 2 ** bits;
  return { first: first + index * partSize, size: partSize, length: length + bits };
}

/** @param text - `10.64.0.0/16`; bits after the length are dropped, as routers drop them. */
export function parseCidr(text: string): Cidr {
  const [address = "", prefix = ""] = text.split("/");
  const length = Number(prefix);
  const size = 2 ** (32 - length);
  const number = address.split(".").reduce((sum, octet) => sum * 256 + Number(octet), 0);
  return { first: number - (number % size), size, length };
}

export function formatCidr({ first, length }: Cidr): string {
  const octets = [24, 16, 8, 0].map((shift) => Math.floor(first / 2 ** shift) % 256);
  return `${octets.join(".")}/${length}`;
}

export function overlap(a: string, b: string): boolean {
  const [one, other] = [parseCidr(a), parseCidr(b)];
  return one.first < other.first + other.size && other.first < one.first + one.size;
}
