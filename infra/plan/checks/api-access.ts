/** From which addresses a cluster's API is reached. */
import { formatCidr, overlap, parseCidr } from "../aws/subnets.ts";
import { RESERVED_NETWORKS } from "../catalogue/aws.ts";
import { awsCheck, type Check, type Remark } from "./finding.ts";

const OPEN_TO_ALL = "0.0.0.0/0";

/** A shorter one is the internet rather than somebody's network. */
const SHORTEST_PREFIX = 8;

const OWN_ADDRESS = "the address that https://checkip.amazonaws.com shows, as A.B.C.D/32";

export const apiAccessChecks = {
  apiCidrsAreGiven: awsCheck(["access", "compute"], ({ compute, access }) => {
    if (compute !== "eks" || access.apiCidrs.length > 0) return [];
    return [
      {
        path: "access.apiCidrs",
        reason: "Nobody could reach the cluster's API, not even this program.",
        fix: `Add the address that you come from: ${OWN_ADDRESS}.`,
      },
    ];
  }),

  // One machine has no such API, and what a typing mistake of `compute` hides is true of both.
  apiCidrsAreNarrow: awsCheck(["access"], ({ access }) =>
    access.apiCidrs.flatMap((cidr, index): readonly Remark[] => {
      const path = `access.apiCidrs[${index}]`;
      if (!isCidr(cidr)) {
        return [
          {
            path,
            reason: "Each of the four numbers is 0 to 255, and the length 0 to 32.",
            fix: "Write a CIDR such as 203.0.113.7/32.",
          },
        ];
      }
      const { length, size } = parseCidr(cidr);
      if (length >= SHORTEST_PREFIX) return [];
      return [
        {
          path,
          reason:
            length === 0
              ? `It is every address of the internet (${OPEN_TO_ALL}), and a cluster's API would be open to all of them.`
              : `It is ${size / 2 ** 20} million addresses, 1/${2 ** length} of the internet, and a cluster's API would be open to all of them.`,
          fix: "Name the networks that may administer the cluster; with compute: ec2 there is none, and no entry is needed.",
        },
      ];
    }),
  ),

  accessIsOfCluster: awsCheck(["access", "compute"], ({ compute, access }) => {
    if (compute !== "ec2") return [];
    return (["apiCidrs", "admins"] as const).flatMap((key): readonly Remark[] => {
      if (access[key].length === 0) return [];
      return [
        {
          severity: "warning",
          path: `access.${key}`,
          reason: `It says who ${key === "admins" ? "administers a cluster" : "reaches a cluster's API"}, and means nothing with compute: ec2: there is no cluster.`,
          fix: "Remove it.",
        },
      ];
    });
  }),

  apiCidrsBeginNetworks: awsCheck(["access"], ({ access }) =>
    access.apiCidrs.flatMap((cidr, index): readonly Remark[] => {
      if (!isCidr(cidr)) return [];
      const network = formatCidr(parseCidr(cidr));
      if (network === cidr) return [];
      return [
        {
          path: `access.apiCidrs[${index}]`,
          reason: `A network of length ${parseCidr(cidr).length} begins at a multiple of ${parseCidr(cidr).size} addresses, and this one does not.`,
          fix: `Write ${network}, or ${cidr.split("/")[0]}/32 for the one address.`,
        },
      ];
    }),
  ),

  // EKS refuses them: "The block cannot include reserved addresses."
  // https://docs.aws.amazon.com/eks/latest/userguide/config-cluster-endpoint.html
  apiCidrsAreOfInternet: awsCheck(["access", "compute"], ({ compute, access }) => {
    if (compute !== "eks") return [];
    return access.apiCidrs.flatMap((cidr, index): readonly Remark[] => {
      if (!isCidr(cidr) || parseCidr(cidr).length < SHORTEST_PREFIX) return [];
      const reserved = RESERVED_NETWORKS.find(({ kind, cidr: one }) => kind === "own" && overlap(one, cidr));
      if (reserved === undefined) return [];
      return [
        {
          path: `access.apiCidrs[${index}]`,
          reason: `${reserved.cidr} has ${reserved.what}: nobody comes from there over the internet, and EKS refuses them.`,
          fix: `Write ${OWN_ADDRESS}; within the VPC the API is reached without an entry.`,
        },
      ];
    });
  }),
} satisfies Record<string, Check>;

function isCidr(text: string): boolean {
  const [address = "", length = ""] = text.split("/");
  return address.split(".").every((part) => Number(part) <= 255) && Number(length) <= 32;
}
