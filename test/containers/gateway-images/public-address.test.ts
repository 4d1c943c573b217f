import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isPublicAddress } from "../../../containers/services/gateway/src/images/public-address.ts";

describe("addresses of the public internet", () => {
  test.each([
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2001:4860:4860::8888",
    "2001:200::1",
    "2a00:1450:4001:80b::200e",
    "3ffe:ffff::1",
  ])("%s is one", (address) => expect(isPublicAddress(address)).toBe(true));

  test.each([
    ["unspecified", "0.0.0.0"],
    ["this network", "0.1.2.3"],
    ["private", "10.0.0.1"],
    ["private, last", "10.255.255.255"],
    ["carrier-grade NAT", "100.64.0.1"],
    ["Alibaba Cloud's metadata", "100.100.100.200"],
    ["loopback", "127.0.0.1"],
    ["loopback, last", "127.255.255.254"],
    ["Azure's platform", "168.63.129.16"],
    ["cloud metadata", "169.254.169.254"],
    ["AWS container credentials", "169.254.170.2"],
    ["link-local", "169.254.0.1"],
    ["private", "172.16.0.1"],
    ["private, last", "172.31.255.255"],
    ["Oracle Cloud's metadata", "192.0.0.192"],
    ["documentation", "192.0.2.1"],
    ["6to4 relay", "192.88.99.1"],
    ["private", "192.168.1.1"],
    ["benchmarks", "198.19.255.255"],
    ["documentation", "198.51.100.7"],
    ["documentation", "203.0.113.7"],
    ["multicast", "224.0.0.1"],
    ["multicast", "239.255.255.250"],
    ["reserved", "240.0.0.1"],
    ["broadcast", "255.255.255.255"],
    ["unspecified", "::"],
    ["loopback", "::1"],
    ["IPv4-compatible", "::127.0.0.1"],
    ["IPv4-compatible, public inside", "::8.8.8.8"],
    ["IPv4-mapped loopback", "::ffff:127.0.0.1"],
    ["IPv4-mapped in hexadecimal", "::ffff:7f00:1"],
    ["IPv4-mapped, written out", "0:0:0:0:0:ffff:a9fe:a9fe"],
    ["IPv4-mapped, public inside", "::ffff:8.8.8.8"],
    ["IPv4-translated", "::ffff:0:10.0.0.1"],
    ["NAT64", "64:ff9b::10.0.0.1"],
    ["NAT64, local", "64:ff9b:1::10.0.0.1"],
    ["discard", "100::1"],
    ["Teredo", "2001::7f00:1"],
    ["benchmarks", "2001:2::1"],
    ["ORCHID", "2001:20::1"],
    ["documentation", "2001:db8::1"],
    ["6to4 of 10.0.0.1", "2002:a00:1::1"],
    ["6to4 of 169.254.169.254", "2002:a9fe:a9fe::"],
    ["documentation", "3fff::1"],
    ["segment routing", "5f00::1"],
    ["unique-local", "fc00::1"],
    ["AWS metadata", "fd00:ec2::254"],
    ["link-local", "fe80::1"],
    ["link-local with a zone", "fe80::1%eth0"],
    ["global with a zone", "2606:4700:4700::1111%eth0"],
    ["site-local", "fec0::1"],
    ["multicast", "ff02::1"],
    ["a name", "localhost"],
    ["decimal", "2130706433"],
    ["short", "127.1"],
    ["hexadecimal", "0x7f.0.0.1"],
    ["nothing", ""],
  ])("%s (%s) is none", (_kind, address) => expect(isPublicAddress(address)).toBe(false));

  test("no IPv4 address becomes public by being written as IPv6", () => {
    fc.assert(
      fc.property(
        fc.ipV4(),
        fc.constantFrom("::", "::ffff:", "::ffff:0:", "64:ff9b::", "2001::"),
        (ip, prefix) => {
          expect(isPublicAddress(prefix + ip)).toBe(false);
        },
      ),
    );
  });

  test("of IPv6, only 2000::/3 can be public", () => {
    fc.assert(
      fc.property(fc.ipV6(), (ip) => {
        const first = Number.parseInt(ip.startsWith(":") ? "0" : (ip.split(":")[0] ?? "0"), 16);
        if (first >> 13 !== 1) expect(isPublicAddress(ip)).toBe(false);
      }),
    );
  });
});
