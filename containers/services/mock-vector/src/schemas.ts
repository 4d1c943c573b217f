/** Requests other than queries. What is not named here is refused. */
import { z } from "zod";
import { filterSchema } from "./filter.ts";
import { MAX_DIMENSIONS, MAX_POINTS, pointId, vectorName } from "./points.ts";
import { MAX_LIMIT } from "./query.ts";
import { payloadSelector, vectorSelector } from "./selectors.ts";
import { DISTANCES } from "./vectors.ts";

/** A name is a part of URLs and keys. */
export const collectionName = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,255}$/, "a collection's name must be 1 to 255 letters, digits and _ . -");

const absent = z.null().optional();
/** Settings of storage and indexes: they change no answer of an exact search. */
const ignored = z.unknown().optional();

const vectorParams = z.strictObject({
  size: z.int().min(1).max(MAX_DIMENSIONS),
  distance: z.enum(DISTANCES),
  on_disk: ignored,
  hnsw_config: ignored,
  quantization_config: absent,
  datatype: z.literal("float32").nullish(),
  multivector_config: absent,
});

export const createCollection = z.strictObject({
  vectors: z.union([
    vectorParams,
    z
      .record(vectorName, vectorParams)
      .refine((named) => Object.keys(named).length > 0, "a collection needs a vector"),
  ]),
  shard_number: ignored,
  replication_factor: ignored,
  write_consistency_factor: ignored,
  on_disk_payload: ignored,
  hnsw_config: ignored,
  optimizers_config: ignored,
  wal_config: ignored,
  init_from: absent,
  quantization_config: absent,
  sparse_vectors: absent,
  sharding_method: absent,
  strict_mode_config: absent,
  metadata: absent,
});
export type CreateCollection = z.infer<typeof createCollection>;

const ids = z.array(pointId).min(1).max(MAX_POINTS);
const selection = { with_payload: payloadSelector, with_vector: vectorSelector };

export const deletePoints = z.union([
  z.strictObject({ points: ids, shard_key: absent }),
  z.strictObject({ filter: filterSchema, shard_key: absent }),
]);

export const retrievePoints = z.strictObject({ ids, ...selection, shard_key: absent });

export const scrollPoints = z.strictObject({
  offset: pointId.nullish(),
  limit: z.int().min(1).max(MAX_LIMIT).nullish(),
  filter: filterSchema.nullish(),
  ...selection,
  order_by: absent,
  shard_key: absent,
});

export const countPoints = z.strictObject({
  filter: filterSchema.nullish(),
  exact: z.boolean().nullish(),
  shard_key: absent,
});
