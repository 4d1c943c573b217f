import { describe, expect, test } from "vitest";
import { reportOf } from "../../../scripts/aws/leftovers-report.ts";
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
    expect(reportOf("us-east-1", "dev", { kind: "answer", value: free })).toMatch(
      /^Nothing with the tag engine-room:stack=dev still costs money\. 5 more with it cost nothing/,
    );
  });

  test("is said of disks and logs by their tag, and by words of backups alone, which have none", () => {
    const disk = arn("ec2", "volume/vol-0123");
    const report = reportOf("us-east-1", "dev", { kind: "answer", value: [disk] });
    expect(report).toContain(disk);
    const [, besides] = report.split("Not in any list by tag: ");
    expect(besides).toMatch(/^copies in vaults of AWS Backup/);
    expect(besides).not.toMatch(/disk|log group/);
  });

  test("is said to be unknown where it may not be asked, with the place to look", () => {
    const report = reportOf("us-east-1", "dev", {
      kind: "denied",
      action: "tag:GetResources",
      words: "AccessDeniedException: no",
    });
    expect(report).toContain("AccessDeniedException");
    expect(report).toContain("tag-editor");
  });
});
