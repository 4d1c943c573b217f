/** The Job that measures a model, as a server with Pod Security `restricted` takes it. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DEFAULT_LOAD, genaiPerfJob } from "../../scripts/bench/genai-perf-job.ts";
import { readClusterTarget } from "../../scripts/program/cluster-target.ts";
import { projectRoot, stackReference } from "../../scripts/program/stack-file.ts";
import { bringUp } from "../harness/kubernetes/bring-up.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { removeNamespace } from "../harness/kubernetes/scenes.ts";

const target = readClusterTarget(stackReference("tests", join(projectRoot, "Pulumi.onprem.yaml")));
const { name: namespace, labels } = target.stack.namespace;

describeWithCluster("bench", ({ api }) => {
  beforeAll(() =>
    bringUp(api, [{ apiVersion: "v1", kind: "Namespace", metadata: { name: namespace, labels } }]),
  );
  afterAll(() => removeNamespace(api, namespace));

  test("is taken with no word against it", async () => {
    const job = genaiPerfJob(target, "llava", { suffix: "tests", load: DEFAULT_LOAD });
    const { warnings } = await api.apply({ ...job });
    expect(warnings).toEqual([]);
  });
});
