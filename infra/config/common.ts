/** Parts that the schemas of all platforms share. */
import { z } from "zod";

/** Names end in paths, Triton model names, Kubernetes objects and host names: RFC 1123 labels, 40 characters at most. */
export const resourceName = z
  .string()
  .max(40)
  .regex(
    /^[a-z]([a-z0-9-]*[a-z0-9])?$/,
    "must be lower-case letters, digits and hyphens, starting with a letter",
  );

/** 0 picks a free port at the first `up` and keeps it. */
export const port = z.int().min(0).max(65535).default(0);

export const tritonPorts = z.strictObject({ http: port, grpc: port, metrics: port }).prefault({});
