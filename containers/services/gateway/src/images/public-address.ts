/** Which addresses a server of pictures may have. */
import { BlockList, isIP } from "node:net";

/**
 * IPv4 networks that are not the public internet: IANA's special-purpose registry
 * (https://www.iana.org/assignments/iana-ipv4-special-registry), multicast, and what clouds put elsewhere.
 */
const NOT_PUBLIC_IPV4 = [
  "0.0.0.0/8", // this network; Linux connects 0.0.0.0 to itself
  "10.0.0.0/8", // private
  "100.64.0.0/10", // carrier-grade NAT; Alibaba Cloud's metadata is 100.100.100.200
  "127.0.0.0/8", // loopback
  "168.63.129.16/32", // Azure's platform, reachable from its virtual machines only
  "169.254.0.0/16", // link-local; 169.254.169.254 is the metadata of most clouds
  "172.16.0.0/12", // private
  "192.0.0.0/24", // protocol assignments; Oracle Cloud's metadata is 192.0.0.192
  "192.0.2.0/24", // documentation
  "192.31.196.0/24", // AS112
  "192.52.193.0/24", // automatic multicast tunnelling
  "192.88.99.0/24", // 6to4 relays, deprecated
  "192.168.0.0/16", // private
  "192.175.48.0/24", // AS112
  "198.18.0.0/15", // benchmarks
  "198.51.100.0/24", // documentation
  "203.0.113.0/24", // documentation
  "224.0.0.0/4", // multicast
  "240.0.0.0/4", // reserved, and broadcast
];

/**
 * The only IPv6 block that is given out to the internet. Loopback, unspecified, IPv4-mapped, -compatible and -translated
 * addresses, NAT64, unique-local, link-local, site-local, multicast and segment routing all lie outside of it.
 */
const GLOBAL_IPV6 = "2000::/3";

/** What is special inside it: https://www.iana.org/assignments/iana-ipv6-special-registry. */
const NOT_PUBLIC_IPV6 = [
  "2001::/23", // protocol assignments: Teredo, benchmarks, ORCHID and others
  "2001:db8::/32", // documentation
  "2002::/16", // 6to4: an IPv4 address is inside
  "2620:4f:8000::/48", // AS112
  "3fff::/20", // documentation
];

function networks(family: "ipv4" | "ipv6", prefixes: readonly string[]): BlockList {
  const list = new BlockList();
  for (const prefix of prefixes) {
    const [network = "", bits] = prefix.split("/");
    list.addSubnet(network, Number(bits), family);
  }
  return list;
}

const notPublicIpv4 = networks("ipv4", NOT_PUBLIC_IPV4);
const globalIpv6 = networks("ipv6", [GLOBAL_IPV6]);
const notPublicIpv6 = networks("ipv6", NOT_PUBLIC_IPV6);

/**
 * Whether an address belongs to the public internet. False for anything that is no address, and for one with a zone:
 * only link-local ones have it.
 */
export function isPublicAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !notPublicIpv4.check(address, "ipv4");
    case 6:
      return (
        !address.includes("%") && globalIpv6.check(address, "ipv6") && !notPublicIpv6.check(address, "ipv6")
      );
    default:
      return false;
  }
}
