/**
 * What there is of a stack in the tree that this file lies in, in a process of its own.
 *
 *     node loader/run.mjs scripts/diff/render-child.ts STACK CONFIG-FILE OUT-FILE
 */
import { writeFileSync } from "node:fs";
import { stackReference } from "../program/stack-file.ts";
import { renderedHere } from "./rendered-tree.ts";

const [name = "", configFile, out = ""] = process.argv.slice(2);
const key = process.env.ENGINE_ROOM_SECRET_MARK_KEY ?? "";
// The program has no use for it, and can't print what it does not have.
delete process.env.ENGINE_ROOM_SECRET_MARK_KEY;
writeFileSync(out, JSON.stringify(await renderedHere(stackReference(name, configFile), key)));
