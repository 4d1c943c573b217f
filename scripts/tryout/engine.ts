/**
 * The try-out runner: applies `local:` resources without the Pulumi CLI. It follows the engine's rules for exactly the
 * operations that such a graph needs (create, update, replace, delete, same, refresh) and refuses everything else;
 * a recorded run of the real engine is the test of that. It is no second engine for clouds.
 */
import {
  type MonitorOwner,
  type Properties,
  type Registered,
  type Registration,
  type RegistrationOptions,
  UNKNOWN_VALUE,
} from "../program/monitor.ts";
import { isSecret, type PropertyChange, propertyChanges } from "./changes.ts";
import { defaultProvider, type PendingOperation, type ResourceState } from "./state.ts";

/** As the engine names them; `delete-replaced` is the second half of a replacement. */
export type Operation = "same" | "create" | "update" | "replace" | "delete" | "delete-replaced";

/** One thing done, or, in a preview, to be done. */
export interface Step {
  readonly operation: Operation;
  readonly urn: string;
  readonly type: string;
  readonly name: string;
  readonly changes: readonly PropertyChange[];
  /** Properties that force a replacement. */
  readonly replaceReasons: readonly string[];
}

/** What the runner needs of a provider: the SDK's Provider interface, by type of resource. */
export interface ResourceProvider {
  supports(type: string): boolean;
  check(request: {
    type: string;
    name: string;
    olds: Properties | undefined;
    news: Properties;
  }): Promise<{ inputs: Properties; failures: readonly { property: string; reason: string }[] }>;
  diff(request: {
    type: string;
    id: string;
    olds: Properties;
    news: Properties;
  }): Promise<{ changes: boolean; replaces: readonly string[]; deleteBeforeReplace: boolean }>;
  create(request: {
    type: string;
    name: string;
    inputs: Properties;
  }): Promise<{ id: string; outputs: Properties }>;
  /** Undefined where the resource is gone. */
  read(request: {
    type: string;
    id: string;
    outputs: Properties;
  }): Promise<{ inputs: Properties; outputs: Properties } | undefined>;
  update(request: {
    type: string;
    name: string;
    id: string;
    olds: Properties;
    news: Properties;
  }): Promise<Properties>;
  delete(request: { type: string; id: string; outputs: Properties }): Promise<void>;
}

export interface EngineOptions {
  readonly project: string;
  readonly stack: string;
  readonly preview: boolean;
  readonly provider: ResourceProvider;
  readonly state: {
    readonly resources: readonly ResourceState[];
    readonly pending: readonly PendingOperation[];
  };
  /** Called after each change of state; a preview never calls it. */
  readonly save: (resources: ResourceState[], pending: PendingOperation[]) => void;
  readonly onStart: (step: Step) => void;
  readonly onEnd: (step: Step, seconds: number) => void;
}

const STACK_TYPE = "pulumi:pulumi:Stack";

/** Resource options with a meaning that this runner has; any other is refused, for silence would be a wrong result. */
const UNDERSTOOD_OPTIONS: readonly (keyof RegistrationOptions)[] = [
  "version",
  "deleteBeforeReplace",
  "customTimeouts",
];

export class TryoutEngine implements MonitorOwner {
  readonly #options: EngineOptions;
  readonly #old: Map<string, ResourceState>;
  readonly #done: ResourceState[] = [];
  readonly #replaced: ResourceState[];
  readonly #pending = new Map<string, PendingOperation>();
  readonly #underWay = new Set<Promise<void>>();
  /** Half-made by an interrupted run: done again even where nothing else changed. */
  readonly #interrupted: ReadonlySet<string>;

  constructor(options: EngineOptions) {
    this.#options = options;
    this.#old = new Map(options.state.resources.filter((r) => r.delete !== true).map((r) => [r.urn, r]));
    this.#replaced = options.state.resources.filter((resource) => resource.delete === true);
    this.#interrupted = new Set(
      options.state.pending.filter((p) => p.type === "updating").map((p) => p.resource.urn),
    );
  }

  /** Why the run ends: the first step that failed. */
  failure: Error | undefined;

  register(registration: Registration): Promise<Registered> {
    const work = this.#register(registration);
    const ended = work.then(
      () => {},
      (error: Error) => {
        this.failure ??= error;
      },
    );
    this.#underWay.add(ended);
    void ended.then(() => this.#underWay.delete(ended));
    return work;
  }

  /** Steps that were begun before one failed are ended, not cut off: what they made belongs into the state. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  async #register(registration: Registration): Promise<Registered> {
    if (this.failure !== undefined) throw new Error("Not begun, because another step failed.");
    this.#refuseWhatIsNotUnderstood(registration);
    return registration.custom ? this.#registerCustom(registration) : this.#registerComponent(registration);
  }

  registerOutputs(urn: string, outputs: Properties): void {
    const resource = this.#done.find((done) => done.urn === urn);
    if (resource === undefined || this.#options.preview) return;
    if (Object.keys(outputs).length > 0) resource.outputs = outputs;
    this.#save();
  }

  /** Deletes what the program no longer asks for, dependents first. Call it when the program has ended well. */
  async deleteUnregistered(): Promise<void> {
    const wanted = new Set(this.#done.map((resource) => resource.urn));
    const leftover = [...this.#old.values()].filter((resource) => !wanted.has(resource.urn));
    for (const resource of this.#replaced.toReversed()) await this.#delete(resource, "delete-replaced");
    for (const resource of leftover.toReversed()) await this.#delete(resource, "delete");
  }

  #refuseWhatIsNotUnderstood(registration: Registration): void {
    const { type, name, custom, options, inputs } = registration;
    const refuse = (what: string): never => {
      throw new Error(
        `${name} (${type}) ${what}, which needs the Pulumi CLI; without it only local: resources are applied.`,
      );
    };
    if (custom && (!this.#options.provider.supports(type) || registration.readId !== undefined))
      refuse("is no local: resource to create");
    const unknownOption = Object.keys(options).find(
      (key) => !(UNDERSTOOD_OPTIONS as readonly string[]).includes(key),
    );
    if (unknownOption !== undefined) refuse(`uses the resource option ${unknownOption}`);
    const secret = Object.entries(inputs).find(([, value]) => containsSecret(value));
    if (secret !== undefined) refuse(`takes a secret in ${secret[0]}`);
  }

  #registerComponent(registration: Registration): Registered {
    const old = this.#old.get(registration.urn);
    const changes = old === undefined ? [] : propertyChanges(old.inputs ?? {}, registration.inputs);
    const step = newStep(
      registration,
      old === undefined ? "create" : changes.length > 0 ? "update" : "same",
      changes,
    );
    this.#options.onStart(step);
    const resource = toState(registration);
    if (old?.outputs !== undefined) resource.outputs = old.outputs;
    this.#finish(resource);
    this.#options.onEnd(step, 0);
    return { outputs: {} };
  }

  async #registerCustom(registration: Registration): Promise<Registered> {
    const { provider, preview } = this.#options;
    const { type, name, urn } = registration;
    const old = this.#old.get(urn);
    const { inputs, failures } = await provider.check({
      type,
      name,
      olds: old?.inputs,
      news: registration.inputs,
    });
    if (failures.length > 0) {
      throw new Error(
        failures.map((f) => `${name}${f.property === "" ? "" : `.${f.property}`}: ${f.reason}`).join("\n"),
      );
    }
    const checked = { ...registration, inputs };
    if (old === undefined) return this.#create(checked, "create", [], []);

    const diff = await provider.diff({ type, id: old.id ?? "", olds: old.outputs ?? {}, news: inputs });
    const changes = propertyChanges(old.inputs ?? {}, inputs);
    if (diff.changes && diff.replaces.length > 0) {
      if (diff.deleteBeforeReplace && !preview) await this.#delete(old, "delete-replaced");
      return this.#create(checked, "replace", changes, diff.replaces);
    }
    if (diff.changes || this.#interrupted.has(urn)) return this.#update(checked, old, changes);
    return this.#keep(checked, old);
  }

  #keep(registration: Registration, old: ResourceState): Registered {
    const step = newStep(registration, "same", []);
    this.#options.onStart(step);
    this.#finish({ ...toState(registration, this.#providerReference(registration)), ...identity(old) });
    this.#options.onEnd(step, 0);
    return registered(old);
  }

  async #create(
    registration: Registration,
    operation: "create" | "replace",
    changes: readonly PropertyChange[],
    replaceReasons: readonly string[],
  ): Promise<Registered> {
    const step = newStep(registration, operation, changes, replaceReasons);
    const resource = toState(registration, this.#providerReference(registration));
    if (this.#options.preview) return this.#previewed(step, resource);
    return this.#perform(step, { type: "creating", resource }, resource, async () => {
      const { type, name, urn, inputs } = registration;
      const { id, outputs } = await this.#options.provider.create({ type, name, inputs });
      // The one that it replaces stays in the state until it is gone, so that an interrupted run still deletes it.
      const previous = this.#old.get(urn);
      if (previous !== undefined) this.#replaced.push({ ...previous, delete: true });
      return { ...resource, id, outputs };
    });
  }

  async #update(
    registration: Registration,
    old: ResourceState,
    changes: readonly PropertyChange[],
  ): Promise<Registered> {
    const step = newStep(registration, "update", changes);
    const resource = { ...toState(registration, this.#providerReference(registration)), ...identity(old) };
    if (this.#options.preview) return this.#previewed(step, resource);
    return this.#perform(step, { type: "updating", resource: old }, resource, async () => {
      const request = {
        type: registration.type,
        name: registration.name,
        id: old.id ?? "",
        olds: old.outputs ?? {},
        news: registration.inputs,
      };
      return { ...resource, outputs: await this.#options.provider.update(request) };
    });
  }

  /** As the engine does for providers that can't preview: inputs are known, every other output is not. */
  #previewed(step: Step, resource: ResourceState): Registered {
    this.#options.onStart(step);
    this.#done.push(resource);
    this.#options.onEnd(step, 0);
    return {
      ...(step.operation === "update" && resource.id !== undefined ? { id: resource.id } : {}),
      outputs: resource.inputs ?? {},
    };
  }

  /** @param made - The resource as it will be, but for what only the provider knows. */
  async #perform(
    step: Step,
    pending: PendingOperation,
    made: ResourceState,
    work: () => Promise<ResourceState>,
  ): Promise<Registered> {
    const started = performance.now();
    this.#options.onStart(step);
    this.#pending.set(step.urn, pending);
    this.#save();
    try {
      const resource = await work();
      this.#pending.delete(step.urn);
      this.#finish(resource);
      this.#options.onEnd(step, (performance.now() - started) / 1000);
      return registered(resource);
    } catch (error) {
      // The operation stays pending: what it left behind is unknown, so the next run does it again. What was made but
      // does not work is kept, so that it can be deleted, and is updated by the next run.
      const partial = partialResult(error);
      if (partial !== undefined) {
        const resource = { ...made, ...partial };
        this.#pending.set(step.urn, { type: "updating", resource });
        this.#done.push(resource);
      }
      this.#save();
      const { message } = error as Error;
      throw new Error(`${step.operation} of ${step.name} (${step.type}): ${message}`, { cause: error });
    }
  }

  async #delete(resource: ResourceState, operation: "delete" | "delete-replaced"): Promise<void> {
    const step: Step = {
      operation,
      urn: resource.urn,
      type: resource.type,
      name: nameOf(resource.urn),
      changes: [],
      replaceReasons: [],
    };
    const started = performance.now();
    const isProvider = resource.type.startsWith("pulumi:providers:");
    if (!isProvider) this.#options.onStart(step);
    if (!this.#options.preview) {
      if (resource.custom && !isProvider) {
        await this.#options.provider.delete({
          type: resource.type,
          id: resource.id ?? "",
          outputs: resource.outputs ?? {},
        });
      }
      const index = this.#replaced.indexOf(resource);
      if (index >= 0) this.#replaced.splice(index, 1);
      else this.#old.delete(resource.urn);
      this.#save();
    }
    if (!isProvider) this.#options.onEnd(step, (performance.now() - started) / 1000);
  }

  #finish(resource: ResourceState): void {
    this.#done.push(resource);
    this.#save();
  }

  #save(): void {
    if (this.#options.preview) return;
    const wanted = new Set(this.#done.map((resource) => resource.urn));
    const rest = [...this.#old.values()].filter((resource) => !wanted.has(resource.urn));
    this.#options.save([...this.#done, ...rest, ...this.#replaced], [...this.#pending.values()]);
  }

  /** Registers the package's default provider of the wanted version on first use, as the engine does. */
  #providerReference(registration: Registration): string {
    const packageName = registration.type.split(":")[0] ?? "";
    const { stack, project } = this.#options;
    const fresh = defaultProvider(stack, project, packageName, registration.options.version);
    let resource = this.#done.find((done) => done.urn === fresh.urn);
    if (resource === undefined) {
      resource = this.#old.get(fresh.urn) ?? fresh;
      this.#done.push(resource);
    }
    return `${resource.urn}::${resource.id ?? ""}`;
  }
}

/** What the SDK's InitializationError carries: the resource exists and does not work. */
function partialResult(error: unknown): { id: string; outputs: Properties } | undefined {
  const { name, id, properties } = error as { name?: unknown; id?: unknown; properties?: unknown };
  if (name !== "InitializationError" || typeof id !== "string") return undefined;
  return { id, outputs: properties as Properties };
}

function containsSecret(value: unknown): boolean {
  if (isSecret(value)) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(containsSecret);
}

function newStep(
  registration: Registration,
  operation: Operation,
  changes: readonly PropertyChange[],
  replaceReasons: readonly string[] = [],
): Step {
  const { urn, type, name } = registration;
  return { operation, urn, type, name, changes, replaceReasons };
}

function toState(registration: Registration, provider = ""): ResourceState {
  const { urn, custom, type, inputs, parent, dependencies, propertyDependencies } = registration;
  return {
    urn,
    custom,
    type,
    ...(type === STACK_TYPE ? {} : { inputs }),
    ...(parent === "" ? {} : { parent }),
    ...(dependencies.length > 0 ? { dependencies: [...dependencies] } : {}),
    ...(provider === "" ? {} : { provider }),
    ...(custom
      ? {
          propertyDependencies: Object.fromEntries(
            Object.entries(propertyDependencies).map(([key, urns]) => [key, [...urns]]),
          ),
        }
      : {}),
  };
}

function identity(old: ResourceState): Pick<ResourceState, "id" | "outputs"> {
  return {
    ...(old.id === undefined ? {} : { id: old.id }),
    ...(old.outputs === undefined ? {} : { outputs: old.outputs }),
  };
}

function registered(resource: ResourceState): Registered {
  return { ...(resource.id === undefined ? {} : { id: resource.id }), outputs: resource.outputs ?? {} };
}

/** Last part of a URN. */
export function nameOf(urn: string): string {
  return urn.split("::")[3] ?? urn;
}

/** Whether a value still has parts that only an `up` will know. */
export function hasUnknowns(value: unknown): boolean {
  if (value === UNKNOWN_VALUE) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(hasUnknowns);
}
