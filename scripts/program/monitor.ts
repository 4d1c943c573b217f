/**
 * The SDK's resource monitor without an engine. The program registers its resources here exactly as with `pulumi up`; the monitor's owner
 * decides what a registration means: render it, apply it, or answer a test.
 */
import type * as resourceProto from "@pulumi/pulumi/proto/resource_pb.js";
import resource from "@pulumi/pulumi/proto/resource_pb.js";
import structProto, { type Struct } from "google-protobuf/google/protobuf/struct_pb.js";
import { makeUrn, type Properties } from "./serialized.ts";

/** A resource as the program registers it. */
export interface Registration {
  readonly type: string;
  readonly name: string;
  readonly urn: string;
  /** URN of the parent; empty for the stack itself. */
  readonly parent: string;
  readonly custom: boolean;
  /** With unknown values and secrets in the SDK's marks. */
  readonly inputs: Properties;
  /** URNs, sorted. */
  readonly dependencies: readonly string[];
  readonly propertyDependencies: Readonly<Record<string, readonly string[]>>;
  /** Reference of an explicit provider, `urn::id`; empty for the default provider. */
  readonly provider: string;
  /** Id of an existing resource that is only read (`Resource.get`). */
  readonly readId: string | undefined;
  readonly options: RegistrationOptions;
}

/** Resource options that differ from their default. */
type RegistrationOptions = Readonly<Partial<ReturnType<typeof allOptions>>>;

export interface Registered {
  readonly id?: string;
  readonly outputs: Properties;
}

/** Handlers of a program's requests to a monitor. */
export interface MonitorOwner {
  /** @param failure - Earlier failure, after which nothing more should begin. */
  register(registration: Registration, failure: Error | undefined): Promise<Registered>;
  /** Outputs of a component or of the stack. */
  registerOutputs(urn: string, outputs: Properties): void;
}

type Callback = (error: unknown, response?: unknown) => void;

export class ProgramMonitor {
  /** The first failure, which ends the run. */
  failure: Error | undefined;
  readonly #project: string;
  readonly #stack: string;
  readonly #owner: MonitorOwner;
  readonly #urns = new Set<string>();
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(project: string, stack: string, owner: MonitorOwner) {
    this.#project = project;
    this.#stack = stack;
    this.#owner = owner;
  }

  fail(error: Error): void {
    this.failure ??= error;
  }

  /** Waits for the registrations that began before one failed: their resources belong in the state. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  registerResource(request: resourceProto.RegisterResourceRequest, callback: Callback): void {
    const registration = {
      ...this.#identity(request),
      custom: request.getCustom(),
      inputs: toProperties(request.getObject()),
      propertyDependencies: propertyDependencies(request),
      readId: undefined,
      options: registrationOptions(request),
    };
    this.#register(registration, callback, ({ id, outputs }) => {
      const response = new resource.RegisterResourceResponse();
      response.setUrn(registration.urn);
      response.setId(id ?? "");
      // A preview returns its inputs. The SDK only converts and copies them.
      if (outputs === registration.inputs) response.getObject = () => asStruct(outputs);
      else response.setObject(toStruct(outputs));
      // The SDK formats every answer for a debug message, even an unread message.
      response.toString = () => registration.urn;
      return response;
    });
  }

  readResource(request: resourceProto.ReadResourceRequest, callback: Callback): void {
    const registration = {
      ...this.#identity(request),
      custom: true,
      inputs: toProperties(request.getProperties()),
      propertyDependencies: {},
      readId: request.getId(),
      options: {},
    };
    this.#register(registration, callback, ({ outputs }) => {
      const response = new resource.ReadResourceResponse();
      response.setUrn(registration.urn);
      response.setProperties(toStruct(outputs));
      return response;
    });
  }

  registerResourceOutputs(request: resourceProto.RegisterResourceOutputsRequest, callback: Callback): void {
    this.#owner.registerOutputs(request.getUrn(), toProperties(request.getOutputs()));
    callback(null, {});
  }

  /** Provider functions need a provider, and its network; a program whose graph depends on them can't be read. */
  invoke(request: resourceProto.ResourceInvokeRequest, callback: Callback): void {
    const error = new Error(
      `The program calls the provider function ${request.getTok()} while its graph is built, and there is no provider.`,
    );
    // The SDK's own error for it has no message.
    this.fail(error);
    callback(error);
  }

  supportsFeature(request: resourceProto.SupportsFeatureRequest, callback: Callback): void {
    // Values stay plain in inputs, as the engine hands them to providers.
    const hasSupport = request.getId() !== "outputValues";
    callback(null, { getHassupport: () => hasSupport });
  }

  registerPackage(_request: unknown, callback: Callback): void {
    const response = new resource.RegisterPackageResponse();
    response.setRef("no-package-parameters");
    callback(null, response);
  }

  #register(
    registration: Registration,
    callback: Callback,
    response: (registered: Registered) => unknown,
  ): void {
    const work = this.#registered(registration).then(
      (registered) => callback(null, response(registered)),
      (error: Error) => {
        this.fail(error);
        callback(error);
      },
    );
    this.#underWay.add(work);
    void work.then(() => this.#underWay.delete(work));
  }

  async #registered(registration: Registration): Promise<Registered> {
    const { urn } = registration;
    // An engine also fails in the middle of an `up`.
    if (registration.readId === undefined && this.#urns.has(urn))
      throw new Error(
        `The program registers ${urn} twice, and Pulumi ends an \`up\` there: each resource of a type and parent has a name of its own.`,
      );
    this.#urns.add(urn);
    return this.#owner.register(registration, this.failure);
  }

  #identity(request: resourceProto.RegisterResourceRequest | resourceProto.ReadResourceRequest) {
    const [parent, type, name] = [request.getParent(), request.getType(), request.getName()];
    return {
      type,
      name,
      urn: makeUrn({ stack: this.#stack, project: this.#project, parent, type, name }),
      parent,
      dependencies: request.getDependenciesList().toSorted(),
      provider: request.getProvider(),
    };
  }
}

function toStruct(properties: Properties): Struct {
  return structProto.Struct.fromJavaScript(
    properties as Parameters<typeof structProto.Struct.fromJavaScript>[0],
  );
}

/** Properties that were converted already. */
function asStruct(properties: Properties): Struct {
  const struct = new structProto.Struct();
  struct.toJavaScript = () => properties as ReturnType<Struct["toJavaScript"]>;
  return struct;
}

function toProperties(struct: Struct | undefined): Properties {
  return (struct?.toJavaScript() ?? {}) as Properties;
}

function propertyDependencies(request: resourceProto.RegisterResourceRequest): Record<string, string[]> {
  const entries: [string, string[]][] = [];
  request.getPropertydependenciesMap().forEach((value, key) => {
    entries.push([key, value.getUrnsList().toSorted()]);
  });
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

function allOptions(request: resourceProto.RegisterResourceRequest) {
  const timeouts = request.getCustomtimeouts()?.toObject() ?? {};
  return {
    version: request.getVersion(),
    protect: request.getProtect(),
    retainOnDelete: request.getRetainondelete(),
    deleteBeforeReplace: request.getDeletebeforereplacedefined()
      ? request.getDeletebeforereplace()
      : undefined,
    ignoreChanges: request.getIgnorechangesList(),
    replaceOnChanges: request.getReplaceonchangesList(),
    additionalSecretOutputs: request.getAdditionalsecretoutputsList(),
    aliases: request
      .getAliasesList()
      .map((alias) => alias.getUrn() || JSON.stringify(alias.getSpec()?.toObject())),
    deletedWith: request.getDeletedwith(),
    importId: request.getImportid(),
    pluginDownloadUrl: request.getPlugindownloadurl(),
    hideDiffs: request.getHidediffsList(),
    replaceWith: request.getReplaceWithList(),
    hooks: Object.values(request.getHooks()?.toObject() ?? {}).some(
      (hooks) => Array.isArray(hooks) && hooks.length > 0,
    ),
    replacementTrigger: request.getReplacementTrigger()?.toJavaScript() as unknown,
    envVarMappings: Object.fromEntries(request.getEnvvarmappingsMap().toArray().toSorted()),
    customTimeouts: Object.fromEntries(
      Object.entries(timeouts).filter(([, value]) => value !== ""),
    ) as Record<string, string>,
  };
}

function registrationOptions(request: resourceProto.RegisterResourceRequest): RegistrationOptions {
  const isDefault = (key: string, value: unknown) =>
    key === "deleteBeforeReplace" || key === "replacementTrigger"
      ? value === undefined || value === null
      : !value || (typeof value === "object" && Object.keys(value).length === 0);
  return Object.fromEntries(
    Object.entries(allOptions(request)).filter(([key, value]) => !isDefault(key, value)),
  );
}
