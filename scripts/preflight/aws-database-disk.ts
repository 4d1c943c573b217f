/** The disk of an instance's databases, against where the machine would be and how large the disk would be. */
import { DATABASE_DISK } from "../../infra/plan/aws/context.ts";
import { instanceZone } from "../../infra/plan/aws/network.ts";
import { type DiskReading, stackDisks } from "../aws/ec2.ts";
import type { Answer } from "../aws/session.ts";
import type { AwsTarget } from "../program/aws-target.ts";
import { unanswered } from "./aws-words.ts";
import { type Finding, problem } from "./finding.ts";

const CHECK = "databaseDisk";

/** null: the stack has none of its own, because its databases are in a cluster. */
export async function readDatabaseDisks({
  plan,
  context: { region, stack, name },
}: AwsTarget): Promise<Answer<readonly DiskReading[]> | null> {
  return plan.compute === "ec2" ? stackDisks(region, stack, `${name}-${DATABASE_DISK}`) : null;
}

/**
 * A disk that `up` would replace by an empty one, because it is in one zone, or that AWS would refuse to make smaller. Pure.
 *
 * @param answer - As {@link readDatabaseDisks} has it.
 */
export function databaseDiskFindings(
  { plan, context: { region, stack } }: AwsTarget,
  answer: Answer<readonly DiskReading[]> | null,
): readonly Finding[] {
  if (plan.compute !== "ec2" || answer === null) return [];
  if (answer.kind !== "answer")
    return unanswered(
      CHECK,
      answer,
      "nobody knows whether the databases' disk is where the machine would be",
    );
  const [disk] = answer.value;
  if (disk === undefined) return [];
  const zone = `${region}${instanceZone(plan.config)}`;
  const own = answer.value.find((one) => one.zone === zone);
  if (own === undefined) {
    const letter = disk.zone.slice(region.length);
    return [
      problem(
        CHECK,
        `The databases' disk ${disk.id} is in ${disk.zone}, and the machine would be in ${zone}.`,
        "A disk is of one zone: `npx engine-room up` would delete it with all documents, and make an empty one.",
        `Write \`zone: ${letter}\` for the pool, and have ${letter} among the zones of the network. To leave that zone, take a snapshot of ${disk.id} if its documents matter, then run \`npx engine-room down --stack ${stack}\` and \`npx engine-room up --stack ${stack}\`.`,
      ),
    ];
  }
  const { sizeGiB } = plan.config.databaseStorage;
  if (own.sizeGiB <= sizeGiB) return [];
  return [
    problem(
      CHECK,
      `The databases' disk ${own.id} has ${own.sizeGiB} GiB, and the stack file says ${sizeGiB}.`,
      "EBS makes no disk smaller, so that `npx engine-room up` would end there.",
      `Write \`sizeGiB: ${own.sizeGiB}\` in \`databaseStorage\`.`,
    ),
  ];
}
