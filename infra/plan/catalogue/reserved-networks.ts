/** Networks of IPv4 from which nobody reaches anything over the internet. */

interface ReservedNetwork {
  readonly cidr: string;
  /** What its addresses are, for people. */
  readonly what: string;
  /** `example`: of documents, left as it was where a stack file was copied. */
  readonly kind: "own" | "example";
  /** Whether machines of a private network may have them. */
  readonly isForMachines: boolean;
}

const own = (cidr: string, what: string): ReservedNetwork => ({
  cidr,
  what,
  kind: "own",
  isForMachines: true,
});
const ofNoMachine = (cidr: string, what: string): ReservedNetwork => ({
  ...own(cidr, what),
  isForMachines: false,
});
const example = (cidr: string): ReservedNetwork => ({
  cidr,
  what: "addresses for examples (RFC 5737)",
  kind: "example",
  isForMachines: false,
});

/** https://www.iana.org/assignments/iana-ipv4-special-registry, without single addresses. */
export const RESERVED_NETWORKS: readonly ReservedNetwork[] = [
  ofNoMachine("0.0.0.0/8", "addresses of this network (RFC 1122)"),
  own("10.0.0.0/8", "private addresses (RFC 1918)"),
  own("100.64.0.0/10", "addresses within a provider's network (RFC 6598)"),
  ofNoMachine("127.0.0.0/8", "addresses of a machine itself (RFC 1122)"),
  ofNoMachine("169.254.0.0/16", "addresses of one link (RFC 3927)"),
  own("172.16.0.0/12", "private addresses (RFC 1918)"),
  own("192.168.0.0/16", "private addresses (RFC 1918)"),
  own("198.18.0.0/15", "addresses for measurements (RFC 2544)"),
  ofNoMachine("224.0.0.0/4", "addresses of multicast (RFC 5771)"),
  ofNoMachine("240.0.0.0/4", "addresses that nobody has (RFC 1112)"),
  example("192.0.2.0/24"),
  example("198.51.100.0/24"),
  example("203.0.113.0/24"),
];
