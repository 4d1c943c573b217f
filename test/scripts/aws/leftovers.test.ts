import { describe, expect, test } from "vitest";
import { leftoversReport, refuseStrangers } from "../../../scripts/aws/leftovers-report.ts";
import { leftovers } from "../../../scripts/aws/tagged.ts";

const arn = (service: string, rest: string) => `arn:aws:${service}:us-east-1:111122223333:${rest}`;
const deletion = (one: string) => leftovers("us-east-1", [one])[0]?.deletion;

describe("what still costs money", () => {
  test.each([
    [arn("elasticfilesystem", "file-system/fs-0123"), /efs delete-file-system --file-system-id fs-0123 /],
    [arn("ec2", "volume/vol-0123"), /ec2 delete-volume --volume-id vol-0123$/],
    [arn("ec2", "natgateway/nat-0123"), /ec2 delete-nat-gateway --nat-gateway-id nat-0123$/],
    [arn("ec2", "elastic-ip/eipalloc-0123"), /ec2 release-address --allocation-id eipalloc-0123 \(after/],
    [
      arn("eks", "nodegroup/engine-room-dev/gpu/1cb2-44"),
      /--cluster-name engine-room-dev --nodegroup-name gpu$/,
    ],
    [arn("logs", "log-group:/engine-room/dev:*"), /--log-group-name \/engine-room\/dev$/],
    [arn("ecr", "repository/engine-room-dev/services"), /--repository-name engine-room-dev\/services$/],
    [
      arn("elasticloadbalancing", "loadbalancer/app/engine-room-dev/50dc6c495c0c9188"),
      /--load-balancer-arn arn:aws:elasticloadbalancing:us-east-1:111122223333:loadbalancer\/app\/engine-room-dev\/50dc6c495c0c9188$/,
    ],
  ])("%s has the command that deletes it", (one, words) => {
    expect(deletion(one)).toMatch(words);
    expect(deletion(one)).toMatch(/^aws --region us-east-1 /);
  });

  test("is no network, group of rules, role, or parameter of a load balancer", () => {
    const free = [
      arn("ec2", "vpc/vpc-0123"),
      arn("ec2", "subnet/subnet-0123"),
      arn("ec2", "security-group/sg-0123"),
      arn("elasticloadbalancing", "targetgroup/engine-room-dev/0123"),
      "arn:aws:iam::111122223333:role/engine-room-dev-node",
    ];
    expect(leftovers("us-east-1", free)).toEqual([]);
    expect(leftoversReport("us-east-1", "dev", { kind: "answer", value: free })).toMatch(
      /^Nothing with the tag engine-room:stack=dev still costs money\. 5 more with it cost nothing/,
    );
  });

  test("has disks of databases among it, which are tagged, and beside it what has no tag, with a command", () => {
    const report = leftoversReport("us-east-1", "dev", {
      kind: "answer",
      value: [arn("ec2", "volume/vol-0123")],
    });
    expect(report).toContain("ec2 delete-volume --volume-id vol-0123");
    const [, notListed = ""] = report.split("In no list by tag:\n");
    expect(
      notListed
        .trimEnd()
        .split("\n")
        .map((line) => line.trim()),
    ).toEqual([
      expect.stringMatching(/^copies that AWS Backup/),
      expect.stringMatching(/^aws --region us-east-1 backup list-recovery-points-by-backup-vault /),
      expect.stringMatching(/^the log group of the cluster engine-room-dev/),
      expect.stringMatching(
        /^aws --region us-east-1 logs describe-log-groups --log-group-name-prefix \/aws\/eks\/engine-room-dev\/$/,
      ),
    ]);
  });

  test("is said to be unknown where it may not be asked, with the place to look", () => {
    const report = leftoversReport("us-east-1", "dev", {
      kind: "denied",
      action: "tag:GetResources",
      words: "AccessDeniedException: no",
    });
    expect(report).toContain("AccessDeniedException");
    expect(report).toContain("tag-editor");
  });
});

describe("what the account has of a stack that the state does not know", () => {
  const refuse = (answer: Parameters<typeof refuseStrangers>[2]) => () =>
    refuseStrangers("The state has no stack dev", { region: "us-east-1", stack: "dev" }, answer);

  test("is counted, with where `down` is to be run, and is nothing where there is none", () => {
    const value = [arn("ec2", "natgateway/nat-0123"), arn("ec2", "vpc/vpc-0123")];
    expect(refuse({ kind: "answer", value })).toThrow(
      /^The state has no stack dev, and the account has 2 things of it: run `down` where it was brought up, or with its ENGINE_ROOM_STATE_URL\.\n.*by hand:\n {2}NAT gateway.*\n.*\n.*nat-0123\n {2}1 more cost nothing/,
    );
    expect(refuse({ kind: "answer", value: [] })).not.toThrow();
  });

  test("is not nothing where AWS does not say", () => {
    expect(refuse({ kind: "denied", action: "tag:GetResources", words: "AccessDenied: no." })).toThrow(
      /is not known: AccessDenied: no\. Look for the tag engine-room:stack=dev in us-east-1/,
    );
  });
});
