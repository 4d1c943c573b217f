/**
 * The SDK's resource monitor without an engine behind it. The program registers its resources here exactly as it would
 * with `pulumi up`; who made the monitor decides what a registration means: render it, apply it, or answer a test.
 */
import type * as resourceProto from "@pulumi/pulumi/proto/resource_pb.js";
import resource from "@pulumi/pulumi/proto/resource_pb.js";
import structProto, { type Struct } from "google-protobuf/google/protobuf/struct_pb.js";
import { makeUrn, type Properties } from "./serialized.ts";

/** One resource as the program asked for it. */
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
  /** Reference of an explicit provider, `urn::id`; empty for the default one. */
  readonly provider: string;
  /** Id of an existing resource that is only read (`Resource.get`). */
  readonly readId: string | undefined;
  readonly options: RegistrationOptions;
}

/** Resource options that differ from their default. */
export interface RegistrationOptions {
  readonly version?: string;
  readonly protect?: boolean;
  readonly retainOnDelete?: boolean;
  readonly deleteBeforeReplace?: boolean;
  readonly ignoreChanges?: readonly string[];
  readonly replaceOnChanges?: readonly string[];
  readonly additionalSecretOutputs?: readonly string[];
  readonly aliases?: readonly string[];
  readonly deletedWith?: string;
  readonly importId?: string;
  readonly pluginDownloadUrl?: string;
  readonly hideDiffs?: readonly string[];
  readonly replaceWith?: readonly string[];
  readonly hooks?: boolean;
  readonly replacementTrigger?: unknown;
  readonly envVarMappings?: Readonly<Record<string, string>>;
  readonly customTimeouts?: Readonly<Record<string, string>>;
}

export interface Registered {
  readonly id?: string;
  readonly outputs: Properties;
}

/** What the owner of a monitor does with a program's requests. */
export interface MonitorOwner {
  register(registration: Registration): Promise<Registered>;
  /** Outputs of a component or of the stack. */
  registerOutputs(urn: string, outputs: Properties): void;
  /** The program itself failed: nothing more is to be begun. */
  fail?(error: Error): void;
  /** Resolves when nothing is under way any more. @default nothing ever is */
  settled?(): Promise<void>;
  /** Why the first registration failed, as the owner would say it. */
  readonly failure?: Error | undefined;
}

type Callback = (error: unknown, response?: unknown) => void;

export class ProgramMonitor {
  readonly #project: string;
  readonly #stack: string;
  readonly #owner: MonitorOwner;
  readonly #urns = new Set<string>();

  constructor(project: string, stack: string, owner: MonitorOwner) {
    this.#project = project;
    this.#stack = stack;
    this.#owner = owner;
  }

  registerResource(request: resourceProto.RegisterResourceRequest, callback: Callback): void {
    this.#answer(callback, async () => {
      const registration = this.#registration(request);
      this.#refuseSecond(registration.urn);
      const { id, outputs } = await this.#owner.register(registration);
      const response = new resource.RegisterResourceResponse();
      response.setUrn(registration.urn);
      response.setId(id ?? "");
      // A preview gives back what it got. The SDK only converts it, and copies what comes out of that.
      if (outputs === registration.inputs) response.getObject = () => asStruct(outputs);
      else response.setObject(toStruct(outputs));
      // The SDK writes every answer into a debug message, whether somebody reads it or not.
      response.toString = () => registration.urn;
      return response;
    });
  }

  readResource(request: resourceProto.ReadResourceRequest, callback: Callback): void {
    this.#answer(callback, async () => {
      const urn = this.#urn(request.getParent(), request.getType(), request.getName());
      const { outputs } = await this.#owner.register({
        type: request.getType(),
        name: request.getName(),
        urn,
        parent: request.getParent(),
        custom: true,
        inputs: toProperties(request.getProperties()),
        dependencies: request.getDependenciesList().toSorted(),
        propertyDependencies: {},
        provider: request.getProvider(),
        readId: request.getId(),
        options: {},
      });
      const response = new resource.ReadResourceResponse();
      response.setUrn(urn);
      response.setProperties(toStruct(outputs));
      return response;
    });
  }

  registerResourceOutputs(request: resourceProto.RegisterResourceOutputsRequest, callback: Callback): void {
    this.#owner.registerOutputs(request.getUrn(), toProperties(request.getOutputs()));
    callback(null, {});
  }

  /** Provider functions need a provider, and the network behind it; a program whose graph depends on one can't be read. */
  invoke(request: resourceProto.ResourceInvokeRequest, callback: Callback): void {
    const error = new Error(
      `The program calls the provider function ${request.getTok()} while its graph is built, and there is no provider.`,
    );
    // The SDK's own error for it has no message.
    this.#owner.fail?.(error);
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

  #answer(callback: Callback, work: () => Promise<unknown>): void {
    work().then(
      (response) => callback(null, response),
      (error: unknown) => callback(error),
    );
  }

  /** As an engine does, in the middle of an `up`. @throws Error where the program has registered the URN already. */
  #refuseSecond(urn: string): void {
    if (!this.#urns.has(urn)) {
      this.#urns.add(urn);
      return;
    }
    const error = new Error(
      `The program registers ${urn} twice, and Pulumi ends an \`up\` there: each resource of a type and parent has a name of its own.`,
    );
    this.#owner.fail?.(error);
    throw error;
  }

  #registration(request: resourceProto.RegisterResourceRequest): Registration {
    return {
      type: request.getType(),
      name: request.getName(),
      urn: this.#urn(request.getParent(), request.getType(), request.getName()),
      parent: request.getParent(),
      custom: request.getCustom(),
      inputs: toProperties(request.getObject()),
      dependencies: request.getDependenciesList().toSorted(),
      propertyDependencies: propertyDependencies(request),
      provider: request.getProvider(),
      readId: undefined,
      options: registrationOptions(request),
    };
  }

  #urn(parent: string, type: string, name: string): string {
    return makeUrn({ stack: this.#stack, project: this.#project, parent, type, name });
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

function registrationOptions(request: resourceProto.RegisterResourceRequest): RegistrationOptions {
  const timeouts = request.getCustomtimeouts()?.toObject() ?? {};
  const envVarMappings = request.getEnvvarmappingsMap().toArray().toSorted();
  const customTimeouts = Object.fromEntries(Object.entries(timeouts).filter(([, value]) => value !== ""));
  const options: Record<keyof RegistrationOptions, unknown> = {
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
    replacementTrigger: request.getReplacementTrigger()?.toJavaScript(),
    envVarMappings: envVarMappings.length > 0 ? Object.fromEntries(envVarMappings) : undefined,
    customTimeouts: Object.keys(customTimeouts).length > 0 ? customTimeouts : undefined,
  };
  const isDefault = (value: unknown) =>
    value === undefined ||
    value === null ||
    value === "" ||
    value === false ||
    (Array.isArray(value) && value.length === 0);
  return Object.fromEntries(
    Object.entries(options).filter(([key, value]) =>
      key === "deleteBeforeReplace" ? value !== undefined : !isDefault(value),
    ),
  );
}
