/** An account of AWS with all that a stack needs, for {@link startFakeAws}; each test changes some responses. */
import { ACCOUNT, REGION } from "../../harness/aws/stacks.ts";
import { type FakeAnswer, type FakeInput, type FakeService, xmlAnswer } from "./fake-aws.ts";

export const CERTIFICATE = `arn:aws:acm:${REGION}:${ACCOUNT}:certificate/12345678-1234-1234-1234-123456789012`;
export const HUB_SECRET = `arn:aws:secretsmanager:${REGION}:${ACCOUNT}:secret:hub-token-AbCdEf`;

export type Answers = Readonly<Record<string, (input: FakeInput) => FakeAnswer>>;

const quota = (value: number): FakeAnswer => ({ json: { Quota: { Value: value } } });

/** Offers of every type in zones a and b. */
export function offered(zones: readonly string[] = ["a", "b"]) {
  return ({ parameters }: FakeInput): FakeAnswer => {
    const types = [...parameters].flatMap(([key, value]) => (/^Filter\.1\.Value/.test(key) ? [value] : []));
    return xmlAnswer("DescribeInstanceTypeOfferings", {
      instanceTypeOfferingSet: types.flatMap((instanceType) =>
        zones.map((zone) => ({ instanceType, location: `${REGION}${zone}` })),
      ),
    });
  };
}

/** Machines of four vCPUs by their type. @param machines.state - @default "running" @param machines.zone - @default zone a */
export function running(
  machines: readonly {
    readonly type: string;
    readonly state?: string;
    readonly zone?: string;
    readonly isSpot?: boolean;
    readonly tags?: Record<string, string>;
  }[],
): FakeAnswer {
  return xmlAnswer("DescribeInstances", {
    reservationSet: [
      {
        instancesSet: machines.map(
          ({ type, state = "running", zone = `${REGION}a`, isSpot, tags = {} }, index) => ({
            instanceId: `i-${index}`,
            instanceType: type,
            instanceState: { name: state },
            cpuOptions: { coreCount: 2, threadsPerCore: 2 },
            placement: { availabilityZone: zone },
            ...(isSpot === true ? { instanceLifecycle: "spot" } : {}),
            tagSet: Object.entries(tags).map(([key, value]) => ({ key, value })),
          }),
        ),
      },
    ],
  });
}

/** Disks by id. */
export function disks(
  all: Readonly<Record<string, { readonly zone: string; readonly sizeGiB: number }>>,
): FakeAnswer {
  return xmlAnswer("DescribeVolumes", {
    volumeSet: Object.entries(all).map(([volumeId, { zone, sizeGiB }]) => ({
      volumeId,
      availabilityZone: `${REGION}${zone}`,
      size: sizeGiB,
    })),
  });
}

/** Networks by id. */
export function networks(
  all: Readonly<Record<string, { readonly cidr: string; readonly tags?: Record<string, string> }>>,
): FakeAnswer {
  return xmlAnswer("DescribeVpcs", {
    vpcSet: Object.entries(all).map(([vpcId, { cidr, tags = {} }]) => ({
      vpcId,
      cidrBlock: cidr,
      tagSet: Object.entries(tags).map(([key, value]) => ({ key, value })),
    })),
  });
}

export const certificateOf = (status: string, names: readonly string[]): FakeAnswer => ({
  json: { Certificate: { Status: status, DomainName: names[0], SubjectAlternativeNames: names } },
});

/** Default key of EBS. */
export const defaultKey = (kmsKeyId: string) => xmlAnswer("GetEbsDefaultKmsKeyId", { kmsKeyId });

const GOOD: Answers = {
  "sts:GetCallerIdentity": () =>
    xmlAnswer(
      "GetCallerIdentity",
      { Account: ACCOUNT, Arn: `arn:aws:iam::${ACCOUNT}:user/me`, UserId: "AIDA" },
      "member",
    ),
  "ec2:DescribeInstanceTypeOfferings": offered(),
  "ec2:DescribeInstances": () => running([]),
  "ec2:DescribeVolumes": () => disks({}),
  "ec2:DescribeVpcs": () => networks({}),
  "ec2:GetEbsDefaultKmsKeyId": () => defaultKey("alias/aws/ebs"),
  "servicequotas:GetServiceQuota": () => quota(1000),
  "acm:DescribeCertificate": () => certificateOf("ISSUED", ["*.example.org"]),
  "secretsmanager:GetSecretValue": () => ({ json: { SecretString: "hf_the-token" } }),
  "secretsmanager:DescribeSecret": () => ({ json: { ARN: HUB_SECRET } }),
  "eks:ListNodegroups": () => ({ error: "ResourceNotFoundException", status: 404 }),
  "eks:DescribeCluster": () => ({ error: "ResourceNotFoundException", status: 404 }),
  "ecr:GetAuthorizationToken": () => ({
    json: { authorizationData: [{ authorizationToken: Buffer.from("AWS:password").toString("base64") }] },
  }),
  "ecr:DescribeRepositories": () => ({ error: "RepositoryNotFoundException" }),
  "ecr:DescribeImages": () => ({ json: { imageDetails: [] } }),
};

/** Sets the quota of a code; the quotas of other codes are high. */
export function quotaOf(code: string, value: number) {
  return ({ body }: FakeInput): FakeAnswer => quota(body.QuotaCode === code ? value : 1000);
}

/** @param changes - Responses by action. An action without a response is an error of the test. */
export function account(changes: Answers = {}): FakeService {
  const answers = { ...GOOD, ...changes };
  return (action, input) => answers[action]?.(input) ?? { error: `NoFake_${action}`, status: 500 };
}
