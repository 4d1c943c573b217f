import { expect, test } from "vitest";
import { makeUrn, urnParts } from "../../scripts/program/urns.ts";

const STACK = "urn:pulumi:kind::engine-room::pulumi:pulumi:Stack::engine-room-kind";
const own = { stack: "kind", project: "engine-room" };

test("a URN has the types of all parents but the stack", () => {
  const server = makeUrn({ ...own, parent: STACK, type: "engine-room:kubernetes:Gateway", name: "gateway" });
  expect(server).toBe("urn:pulumi:kind::engine-room::engine-room:kubernetes:Gateway::gateway");
  const service = makeUrn({ ...own, parent: server, type: "kubernetes:core/v1:Service", name: "door" });
  expect(service).toBe(
    "urn:pulumi:kind::engine-room::engine-room:kubernetes:Gateway$kubernetes:core/v1:Service::door",
  );
  expect(makeUrn({ ...own, parent: "", type: "pulumi:pulumi:Stack", name: "engine-room-kind" })).toBe(STACK);
});

test("its parts are what it was made of, colons of the name included", () => {
  const parent = makeUrn({ ...own, parent: STACK, type: "a:b:C", name: "outer" });
  const parts = { ...own, type: "d:e/f:G", name: "one::two" };
  expect(urnParts(makeUrn({ ...parts, parent }))).toEqual({ ...parts, qualifiedType: "a:b:C$d:e/f:G" });
});

test("of what is no URN the parts are empty", () => {
  expect(urnParts("")).toEqual({ stack: "", project: "", qualifiedType: "", type: "", name: "" });
});
