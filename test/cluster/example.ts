import { join } from "node:path";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { poolsOf } from "../harness/kubernetes/stack-files.ts";

/** One machine, whose one GPU is two by time slicing. */
export const examplePools = poolsOf(join(projectRoot, "examples/llama-2-7b-chat-kubernetes.yaml"));
