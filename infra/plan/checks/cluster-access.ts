/** Access to the API of a cluster on EKS, and rights in it. */
import type { EksConfig } from "../../config/aws-stacks.ts";
import { overlap, parseCidr } from "../aws/network.ts";
import { RESERVED_NETWORKS } from "../catalogue/aws.ts";
import { beginsNetwork } from "./aws-network.ts";
import type { Check, CheckedStack, Checks, Finding } from "./check.ts";

const OPEN_TO_ALL = "0.0.0.0/0";

/** In bits; a shorter prefix is a part of the internet rather than one organisation's network. */
const SHORTEST_PREFIX = 8;

const OWN_ADDRESS = "the address that https://checkip.amazonaws.com shows, as A.B.C.D/32";

type EksStack = CheckedStack<EksConfig>;

export const clusterAccessChecks = {
  apiCidrsAreGiven: ({ config: { access, cluster } }) =>
    cluster.existing === undefined &&
    access.endpoint === "public" &&
    access.apiCidrs.length === 0 && {
      path: "access.apiCidrs",
      reason: "No one could reach the cluster's API, including this program.",
      fix: `Add your address: ${OWN_ADDRESS}. Or write endpoint: private, and privateCidrs for the network that you are in.`,
    },

  privateApiHasNoCidrs: ({ config: { access } }) =>
    access.endpoint === "private" &&
    access.apiCidrs.length > 0 && {
      path: "access.apiCidrs",
      reason: "With `endpoint: private` the cluster's API does not answer on the internet.",
      fix: "Remove it, or write endpoint: public.",
    },

  privateApiIsReached: ({ config: { access } }) =>
    access.endpoint === "private" &&
    access.privateCidrs.length === 0 && {
      severity: "warning",
      path: "access.privateCidrs",
      reason:
        "Only machines and pods of the cluster reach its API: `npx engine-room up` works only if another rule lets it into the cluster's security group.",
      fix: "Add the network of your VPN, of your runners or of the VPC's subnets that they are in.",
    },

  privateCidrsBeginNetworks: ({ config: { access } }) =>
    access.privateCidrs.map((cidr, index) => beginsNetwork(`access.privateCidrs[${index}]`, cidr)),

  apiCidrsAreNarrow: eachApiCidr((cidr, path) => {
    const { length, size } = parseCidr(cidr);
    if (length >= SHORTEST_PREFIX) return false;
    const addresses =
      length === 0
        ? `every address of the internet (${OPEN_TO_ALL})`
        : `${size / 2 ** 20} million addresses, 1/${2 ** length} of the internet`;
    return {
      path,
      reason: `It has ${addresses}, and the cluster's API would be open to all of them.`,
      fix: "Name the networks from which the cluster is administered.",
    };
  }),

  apiCidrsBeginNetworks: eachApiCidr((cidr, path) =>
    beginsNetwork(path, cidr, `, or ${cidr.split("/")[0]}/32 for that single address`),
  ),

  // EKS refuses them: "The block cannot include reserved addresses."
  // https://docs.aws.amazon.com/eks/latest/userguide/config-cluster-endpoint.html
  apiCidrsAreOfInternet: eachApiCidr((cidr, path) => {
    if (parseCidr(cidr).length < SHORTEST_PREFIX) return false;
    const reserved = RESERVED_NETWORKS.find((range) => range.use !== "example" && overlap(range.cidr, cidr));
    if (reserved === undefined) return false;
    return {
      path,
      reason: `${reserved.cidr} has ${reserved.what}: they are not on the internet, and EKS refuses them.`,
      fix: `Write ${OWN_ADDRESS}; networks of the VPC, or connected to it, belong in access.privateCidrs.`,
    };
  }),

  clusterHasAdmins: ({ config: { access } }) =>
    !access.creatorIsAdmin &&
    access.admins.length === 0 && {
      path: "access.admins",
      reason: "With `creatorIsAdmin: false` no one could administer the cluster, including this program.",
      fix: "Add the role or user that runs `up`.",
    },

  // EKS has one access entry for each principal.
  principalsAreDistinct: ({ config: { access } }) =>
    access.viewers.map(
      (arn, index) =>
        access.admins.includes(arn) && {
          path: `access.viewers[${index}]`,
          reason: "It is also in access.admins, and EKS allows one entry per principal.",
          fix: "Remove it here, or there.",
        },
    ),
} satisfies Checks<EksStack>;

function eachApiCidr(check: (cidr: string, path: string) => Finding | false): Check<EksStack> {
  return ({ config }) =>
    config.access.apiCidrs.map((cidr, index) => check(cidr, `access.apiCidrs[${index}]`));
}
