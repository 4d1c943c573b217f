/** Node groups whose creation failed, which no update mends. */
import { nodeGroups } from "./eks.ts";
import { required } from "./session.ts";

/**
 * Of some node groups those that EKS calls CREATE_FAILED.
 *
 * @param ids - As Pulumi has them, `CLUSTER:GROUP`. One that EKS does not have is none of them.
 * @throws UserError where EKS does not say.
 */
export async function failedGroups(region: string, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const clusters = [...new Set(ids.map((id) => id.slice(0, id.indexOf(":"))))];
  const failed = await Promise.all(
    clusters.map(async (cluster) => {
      const answer = await nodeGroups(region, cluster);
      if (answer.kind === "absent") return [];
      return required(answer, "").flatMap(({ name, status }) =>
        status === "CREATE_FAILED" ? [`${cluster}:${name}`] : [],
      );
    }),
  );
  const all = new Set(failed.flat());
  return new Set(ids.filter((id) => all.has(id)));
}
