/**
 * A plugin of the Pulumi engine in place of AWS's own. It calls no API and checks no argument; which change replaces a
 * resource is read from the project's own table. The engine starts it; see `install.ts`.
 */
import { Metadata, Server, ServerCredentials, type ServerUnaryCall, status } from "@grpc/grpc-js";
import pluginProto from "@pulumi/pulumi/proto/plugin_pb.js";
import grpcProto from "@pulumi/pulumi/proto/provider_grpc_pb.js";
import type * as providerTypes from "@pulumi/pulumi/proto/provider_pb.js";
import providerProto from "@pulumi/pulumi/proto/provider_pb.js";
import statusProto from "@pulumi/pulumi/proto/status_pb.js";
import anyProto from "google-protobuf/google/protobuf/any_pb.js";
import emptyProto from "google-protobuf/google/protobuf/empty_pb.js";
import structProto, { type Struct } from "google-protobuf/google/protobuf/struct_pb.js";
import { unwrap, wrap } from "../../../../components/local/provider/contract.ts";
import { deletesFirst, propertyEffect } from "../../../../scripts/diff/replacements.ts";
import { UNKNOWN_VALUE } from "../../../../scripts/program/serialized.ts";
import { Account, type LiveResource, type Properties } from "./account.ts";
import { made, merged, type Place } from "./answers.ts";
import { endingWith, refusedCreation, refusedDeletion, refusedUpdate } from "./order-errors.ts";

/** Settings from `install.ts`. */
export interface Settings extends Place {
  readonly folder: string;
  readonly version: string;
}

const PARENT_CHECK_MILLISECONDS = 500;

const settings = JSON.parse(process.argv[2] ?? "") as Settings;
const account = new Account(settings.folder);

interface Received {
  readonly properties: Properties;
  readonly secretNames: readonly string[];
}

function received(struct: Struct | undefined): Received {
  return unwrap(struct?.toJavaScript() as Properties | undefined);
}

function sent(properties: Properties, secretNames: readonly string[]): Struct {
  return structProto.Struct.fromJavaScript(wrap(properties, secretNames) as never);
}

/** `urn:pulumi:<stack>::<project>::<parent type>$<type>::<name>`. */
function partsOf(urn: string): { readonly type: string; readonly name: string } {
  const [, , types = "", ...name] = urn.split("::");
  return { type: types.split("$").at(-1) ?? "", name: name.join("::") };
}

function checkConfig(request: providerTypes.CheckRequest) {
  const response = new providerProto.CheckResponse();
  const { properties } = received(request.getNews());
  const allowed = JSON.parse(String(properties.allowedAccountIds ?? "[]")) as readonly string[];
  if (!allowed.includes(settings.account))
    throw new Error(`AWS account ID not allowed: ${settings.account}; allowed are ${allowed.join(", ")}`);
  response.setInputs(request.getNews());
  return response;
}

function configure() {
  const response = new providerProto.ConfigureResponse();
  response.setAcceptsecrets(true);
  response.setSupportspreview(true);
  return response;
}

function check(request: providerTypes.CheckRequest) {
  const response = new providerProto.CheckResponse();
  response.setInputs(request.getNews());
  return response;
}

function diff(request: providerTypes.DiffRequest) {
  const response = new providerProto.DiffResponse();
  const { type } = partsOf(request.getUrn());
  const before = received(request.getOldInputs()).properties;
  const after = received(request.getNews()).properties;
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  const changed = keys.filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]));
  const replaces = changed.filter((key) =>
    changedPaths(before[key], after[key], [key]).some(({ path, value }) => {
      const effect = propertyEffect(type, path, value);
      return effect === "replace" || effect === "may-replace";
    }),
  );
  const changes = providerProto.DiffResponse.DiffChanges;
  response.setChanges(changed.length > 0 ? changes.DIFF_SOME : changes.DIFF_NONE);
  response.setDiffsList(changed);
  response.setReplacesList(replaces);
  response.setDeletebeforereplace(replaces.length > 0 && deletesFirst(type, before, after));
  return response;
}

interface ChangedPath {
  readonly path: readonly string[];
  readonly value: unknown;
}

/** Paths of differing properties: one property of an object may replace the resource, and another not. */
function changedPaths(before: unknown, after: unknown, path: readonly string[]): readonly ChangedPath[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  if (!isObject(before) || !isObject(after)) return [{ path, value: after ?? before }];
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].flatMap((key) => changedPaths(before[key], after[key], [...path, key]));
}

function isObject(value: unknown): value is Properties {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function create(request: providerTypes.CreateRequest) {
  const response = new providerProto.CreateResponse();
  const { type, name } = partsOf(request.getUrn());
  const { properties: inputs, secretNames } = received(request.getProperties());
  const { id, computed } = made(type, inputs, settings);
  if (request.getPreview()) {
    response.setProperties(sent(merged(inputs, unknown(computed) as Properties), secretNames));
    return response;
  }
  refuse({ operation: "create", type, name, id: null }, refusedCreation(account.live(), type, inputs));
  const outputs = merged(inputs, computed);
  account.keep({ type, name, id, inputs, outputs });
  account.record({ operation: "create", type, name, id, refusal: null });
  const failure = account.takeFailure(type);
  if (failure !== null) throw initFailure(id, sent(outputs, secretNames), failure);
  response.setId(id);
  response.setProperties(sent(outputs, secretNames));
  return response;
}

/** Error of the bridge of Terraform's providers for a resource that was created and did not become ready. */
function initFailure(id: string, properties: Struct, reason: string): Error {
  const detail = new providerProto.ErrorResourceInitFailed();
  detail.setId(id);
  detail.setProperties(properties);
  detail.setReasonsList([reason]);
  const details = new anyProto.Any();
  details.pack(detail.serializeBinary(), "pulumirpc.ErrorResourceInitFailed");
  const words = new statusProto.Status();
  words.setCode(status.UNKNOWN);
  words.setMessage(reason);
  words.addDetails(details);
  const metadata = new Metadata();
  metadata.add("grpc-status-details-bin", Buffer.from(words.serializeBinary()));
  return Object.assign(new Error(reason), { code: status.UNKNOWN, metadata });
}

/** Replaces every value by the placeholder for a value that only AWS knows. */
function unknown(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(unknown);
  if (!isObject(value)) return UNKNOWN_VALUE;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, unknown(inner)]));
}

function refuse(call: Omit<Parameters<Account["record"]>[0], "refusal">, refusal: string | null): void {
  if (refusal === null) return;
  account.record({ ...call, refusal });
  throw new Error(refusal);
}

function read(request: providerTypes.ReadRequest) {
  const response = new providerProto.ReadResponse();
  const { type } = partsOf(request.getUrn());
  const found = account.find(type, request.getId());
  // An empty id reports that it no longer exists.
  if (found === undefined) return response;
  response.setId(found.id);
  response.setProperties(sent(found.outputs, received(request.getProperties()).secretNames));
  response.setInputs(sent(found.inputs, received(request.getInputs()).secretNames));
  return response;
}

function update(request: providerTypes.UpdateRequest) {
  const response = new providerProto.UpdateResponse();
  const { type, name } = partsOf(request.getUrn());
  const id = request.getId();
  const { properties: inputs, secretNames } = received(request.getNews());
  const found = account.find(type, id);
  if (found === undefined) throw new Error(`NotFound: ${id} does not exist`);
  const isPreview = request.getPreview();
  const outputs = { ...merged(inputs, answersOf(found)), ...versionAfter(found, inputs, isPreview) };
  if (!isPreview) {
    refuse({ operation: "update", type, name, id }, refusedUpdate(account.live(), found, inputs));
    account.keep({ ...found, inputs, outputs });
    account.record({ operation: "update", type, name, id, refusal: null });
  }
  response.setProperties(sent(outputs, secretNames));
  return response;
}

/** Values that AWS added at creation; an update keeps them. */
function answersOf({
  inputs,
  outputs,
}: {
  readonly inputs: Properties;
  readonly outputs: Properties;
}): Properties {
  const own = Object.entries(outputs).flatMap(([key, value]): (readonly [string, unknown])[] => {
    const given = inputs[key];
    if (given === undefined) return [[key, value]];
    return isObject(given) && isObject(value) ? [[key, answersOf({ inputs: given, outputs: value })]] : [];
  });
  return Object.fromEntries(own);
}

/**
 * Properties that are not part of a machine's launch data: `updateKeys` of the provider's
 * `resourceLaunchTemplateUpdate` lacks them.
 */
const BESIDE_LAUNCH_DATA: ReadonlySet<string> = new Set(["tags", "tagsAll", "updateDefaultVersion"]);

/** Another launch template is a new version of it. A preview does not know whether there will be one. */
function versionAfter(
  { inputs, outputs }: LiveResource,
  changed: Properties,
  isPreview: boolean,
): Properties {
  const { latestVersion } = outputs;
  if (typeof latestVersion !== "number") return {};
  if (isPreview) return { latestVersion: UNKNOWN_VALUE };
  const keys = [...new Set([...Object.keys(inputs), ...Object.keys(changed)])];
  const isNew = keys.some(
    (key) => !BESIDE_LAUNCH_DATA.has(key) && JSON.stringify(inputs[key]) !== JSON.stringify(changed[key]),
  );
  return isNew ? { latestVersion: latestVersion + 1 } : {};
}

function remove(request: providerTypes.DeleteRequest) {
  const { type, name } = partsOf(request.getUrn());
  const id = request.getId();
  const found = account.find(type, id);
  // Deleting a missing resource succeeds; with `skipDestroy` the provider forgets a resource and keeps it in AWS.
  if (found !== undefined && found.inputs.skipDestroy !== true) {
    const live = account.live();
    refuse({ operation: "delete", type, name, id }, refusedDeletion(live, found));
    for (const one of [...endingWith(live, found), found]) account.remove(one);
  }
  account.record({ operation: "delete", type, name, id, refusal: null });
  return new emptyProto.Empty();
}

function pluginInfo() {
  const response = new pluginProto.PluginInfo();
  response.setVersion(settings.version);
  return response;
}

/** Answers a call, with an error in AWS's words if it is refused. */
const answer =
  <Request, Response>(handle: (request: Request) => Response) =>
  (
    { request }: ServerUnaryCall<Request, Response>,
    callback: (error: Error | null, response?: Response) => void,
  ) => {
    try {
      callback(null, handle(request));
    } catch (error) {
      callback(error as Error);
    }
  };

const server = new Server({ "grpc.max_receive_message_length": -1, "grpc.max_send_message_length": -1 });
// The rest is answered with UNIMPLEMENTED, which the engine knows.
server.addService(grpcProto.ResourceProviderService, {
  getPluginInfo: answer(pluginInfo),
  attach: answer(() => new emptyProto.Empty()),
  cancel: answer(() => new emptyProto.Empty()),
  checkConfig: answer(checkConfig),
  configure: answer(configure),
  check: answer(check),
  diff: answer(diff),
  create: answer(create),
  read: answer(read),
  update: answer(update),
  delete: answer(remove),
});
server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) => {
  if (error !== null) throw error;
  process.stdout.write(`${port}\n`);
});

// An engine that is killed can't tell its plugins to end.
const parent = process.ppid;
setInterval(() => {
  if (process.ppid !== parent) process.exit(1);
}, PARENT_CHECK_MILLISECONDS).unref();
