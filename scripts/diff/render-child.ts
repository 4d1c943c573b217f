/**
 * Renders a stack of this file's tree in a separate process.
 *
 *     node loader/run.mjs scripts/diff/render-child.ts STACK CONFIG-FILE OUT-FILE
 */
import { writeFileSync } from "node:fs";
import { stackReference } from "../program/stack-file.ts";
import { renderedHere } from "./rendered-tree.ts";

const [name = "", configFile, out = ""] = process.argv.slice(2);
const key = process.env.ENGINE_ROOM_SECRET_MARK_KEY ?? "";
// The program does not need the key; without it, it can't print it.
delete process.env.ENGINE_ROOM_SECRET_MARK_KEY;
writeFileSync(out, JSON.stringify(await renderedHere(stackReference(name, configFile), key)));
