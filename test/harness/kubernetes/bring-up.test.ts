import { expect, test } from "vitest";
import { claimVolumes } from "./bring-up.ts";
import { restrictedNamespace, takenForGranted } from "./scenes.ts";

const claim = {
  apiVersion: "v1",
  kind: "PersistentVolumeClaim",
  metadata: { name: "store", namespace: "models" },
  spec: {
    accessModes: ["ReadWriteMany"],
    storageClassName: "shared",
    resources: { requests: { storage: "100Gi" } },
  },
};

test("each claim has a volume of its own size, class and modes, a StatefulSet's one for each pod", () => {
  const { storageClassName: _, ...own } = claim.spec;
  const set = {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { name: "mongo", namespace: "models" },
    spec: { replicas: 2, volumeClaimTemplates: [{ metadata: { name: "data" }, spec: own }] },
  };
  const volumes = claimVolumes([{ ...claim, kind: "Service" }, claim, set]);
  expect(volumes.map(({ metadata }) => metadata.name)).toEqual([
    "models-store",
    "models-data-mongo-0",
    "models-data-mongo-1",
  ]);
  expect(volumes[0]?.spec).toMatchObject({
    capacity: { storage: "100Gi" },
    accessModes: ["ReadWriteMany"],
    storageClassName: "shared",
    claimRef: { name: "store", namespace: "models" },
  });
  // No class, which is another thing than the default one.
  expect(volumes[1]?.spec).toMatchObject({ storageClassName: "", claimRef: { name: "data-mongo-0" } });
});

test("a claim without a size is an error", () => {
  const spec = { accessModes: ["ReadWriteOnce"] };
  expect(() => claimVolumes([{ ...claim, spec }])).toThrow(
    "v1 PersistentVolumeClaim models/store has no size or no access mode; a claim needs both.",
  );
});

test("what the owner of the cluster has made: namespaces, and claims that no object makes", () => {
  const volumes = ["store", "weights"].map((claimName) => ({
    name: claimName,
    persistentVolumeClaim: { claimName },
  }));
  const job = {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: "build", namespace: "models" },
    spec: { template: { spec: { volumes: [...volumes, { name: "scratch", emptyDir: {} }] } } },
  };
  const named = (objects: Parameters<typeof takenForGranted>[0]) =>
    takenForGranted(objects).map(({ kind, metadata }) => `${kind} ${metadata.name}`);
  expect(named([claim, job, { ...job, metadata: { name: "again", namespace: "models" } }])).toEqual([
    "Namespace models",
    "PersistentVolumeClaim weights",
  ]);
  expect(named([restrictedNamespace("models"), claim])).toEqual([]);
});
