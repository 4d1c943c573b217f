/**
 * The try-out runner: applies `local:` resources without the Pulumi CLI. It follows the engine's rules for exactly the operations that such
 * a graph needs (create, update, replace, delete, same, refresh) and refuses everything else; a recorded run of the real engine is the test
 * of that. It is not an engine for clouds.
 */
import { isDeepStrictEqual } from "node:util";
import type { ResourceHandler } from "../../components/local/provider/contract.ts";
import { isSecret, type PropertyChange, propertyChanges } from "../program/changes.ts";
import type { MonitorOwner, Registered, Registration } from "../program/monitor.ts";
import { type Properties, urnParts } from "../program/serialized.ts";
import type { Operation, Step } from "../stack/preview-text.ts";
import type { StepReporter } from "../stack/reporter.ts";
import { defaultProvider, type PendingOperation, type ResourceState, type RunnerState } from "./state.ts";

interface Runner {
  readonly project: string;
  readonly stack: string;
  readonly isPreview: boolean;
  /** Operations on a type of resource; undefined for a type without a handler. */
  readonly handlerOf: (type: string) => ResourceHandler | undefined;
  readonly state: RunnerState;
  /** Called after each change of state; a preview never calls it. */
  readonly save: (state: RunnerState) => void;
  readonly reporter: Pick<StepReporter, "start" | "end" | "progress">;
}

const UNDERSTOOD_OPTIONS: readonly string[] = ["deleteBeforeReplace", "version"];

export class TryoutEngine implements MonitorOwner {
  readonly #runner: Runner;
  readonly #old: Map<string, ResourceState>;
  /** By URN, in the order in which they were made. */
  readonly #done = new Map<string, ResourceState>();
  /** Replaced resources that are still to be deleted. */
  readonly #replaced: Set<ResourceState>;
  /** Begun and not ended, by this run or an interrupted run: repeated even if nothing else changed. */
  readonly #pending: Map<string, PendingOperation>;

  constructor(runner: Runner) {
    const { resources, pending } = runner.state;
    this.#runner = runner;
    this.#old = new Map(resources.filter((r) => r.delete !== true).map((r) => [r.urn, r]));
    this.#replaced = new Set(resources.filter((resource) => resource.delete === true));
    this.#pending = new Map(pending.map((operation) => [operation.resource.urn, operation]));
  }

  async register(registration: Registration, failure: Error | undefined): Promise<Registered> {
    if (failure !== undefined) throw new Error("Not started, because another step failed.");
    this.#refuseUnsupported(registration);
    const old = this.#old.get(registration.urn);
    if (registration.custom) return this.#registerCustom(registration, old);
    const changes = propertyChanges(old?.inputs ?? {}, registration.inputs);
    const operation = old === undefined ? "create" : changes.length > 0 ? "update" : "same";
    this.#note(stepOf(registration, operation, changes), { ...toState(registration), ...kept(old) });
    return { outputs: {} };
  }

  registerOutputs(urn: string, outputs: Properties): void {
    const resource = this.#done.get(urn);
    if (resource === undefined) return;
    if (Object.keys(outputs).length > 0) resource.outputs = outputs;
    this.#save();
  }

  /**
   * Deletes resources that the program did not register, dependents first, and remains of interrupted creates. Without a program that is
   * the whole stack.
   */
  async deleteUnregistered(): Promise<void> {
    const leftover = [...this.#old.values(), ...this.#halfMade()].filter(({ urn }) => !this.#done.has(urn));
    await deleteAll([...this.#replaced], (resource) => this.#delete(resource, "delete-replaced"));
    await deleteAll(leftover, (resource) => this.#delete(resource, "delete"));
  }

  /** Reads the present state of every resource. Missing resources leave the state, so that the next `up` creates them. */
  async refresh(): Promise<void> {
    const { state, save, reporter } = this.#runner;
    const read = await Promise.all(
      state.resources.map(async (resource) => {
        if (isProvider(resource)) return [resource];
        const { id = "", outputs = {} } = resource;
        const current = resource.custom
          ? await this.#handler(resource.type).read(id, outputs, this.#context(resource.urn))
          : { inputs: resource.inputs, outs: outputs };
        const isSame = current !== undefined && isDeepStrictEqual(current.outs, outputs);
        const operation = current === undefined ? "delete" : isSame ? "same" : "update";
        reporter.end(stepOf(resource, operation, propertyChanges(outputs, current?.outs ?? outputs)));
        if (current === undefined) return [];
        return [isSame ? resource : { ...resource, inputs: current.inputs, outputs: current.outs }];
      }),
    );
    const present = read.flat();
    const urns = new Set(present.map(({ urn }) => urn));
    save({ ...state, resources: present.map((resource) => withoutDangling(resource, urns)) });
  }

  /** A resource option that this runner does not support is refused: silence would be a wrong result. */
  #refuseUnsupported({ type, name, custom, options, inputs, readId }: Registration): void {
    const option = Object.keys(options).find((key) => !UNDERSTOOD_OPTIONS.includes(key));
    const secret = Object.entries(inputs).find(([, value]) => containsSecret(value));
    const reason =
      custom && (this.#runner.handlerOf(type) === undefined || readId !== undefined)
        ? "is not a local: resource to create"
        : option !== undefined
          ? `uses the resource option ${option}`
          : secret !== undefined
            ? `takes a secret in ${secret[0]}`
            : undefined;
    if (reason === undefined) return;
    throw new Error(
      `${name} (${type}) ${reason}, which needs the Pulumi CLI; without it only local: resources are applied.`,
    );
  }

  async #registerCustom(given: Registration, old: ResourceState | undefined): Promise<Registered> {
    const { type, name, urn } = given;
    const handler = this.#handler(type);
    const { inputs, failures } = await handler.check(given.inputs, old?.inputs);
    if (failures.length > 0)
      throw new Error(
        failures
          .map(({ property, reason }) => `${name}${property === "" ? "" : `.${property}`}: ${reason}`)
          .join("\n"),
      );
    const made = { ...toState({ ...given, inputs }), provider: this.#providerReference(given) };
    const changes = propertyChanges(old?.inputs ?? {}, inputs);
    const context = this.#context(urn);
    const create = async () => {
      const { id, outs } = await handler.create(name, inputs, context);
      // The replaced resource stays in the state until it is deleted, so that an interrupted run still deletes it.
      const previous = this.#old.get(urn);
      if (previous !== undefined) this.#replaced.add({ ...previous, delete: true });
      return { ...made, id, outputs: outs };
    };
    if (old === undefined) return this.#perform(stepOf(given, "create", changes), made, undefined, create);
    const olds = old.outputs ?? {};
    const diff = await handler.diff(old.id ?? "", olds, inputs);
    const updated = { ...made, ...kept(old) };
    if (diff.changes && diff.replaces.length > 0) {
      if (given.options.deleteBeforeReplace === true && !this.#runner.isPreview)
        await this.#delete(old, "delete-replaced");
      return this.#perform(stepOf(given, "replace", changes, diff.replaces), made, undefined, create);
    }
    if (diff.changes || this.#pending.has(urn))
      return this.#perform(stepOf(given, "update", changes), updated, old, async () => {
        const { outs } = await handler.update(old.id ?? "", olds, inputs, context);
        return { ...updated, outputs: outs };
      });
    this.#note(stepOf(given, "same"), updated);
    return registered(updated);
  }

  /** Records an immediate step. */
  #note(step: Step, resource: ResourceState): void {
    this.#done.set(resource.urn, resource);
    this.#save();
    this.#runner.reporter.end(step);
  }

  /**
   * @param made - The future resource, without properties that only the provider knows.
   * @param old - The updated resource; undefined for a new resource.
   */
  async #perform(
    step: Step,
    made: ResourceState,
    old: ResourceState | undefined,
    work: () => Promise<ResourceState>,
  ): Promise<Registered> {
    if (this.#runner.isPreview) {
      this.#note(step, made);
      // As in the engine for providers that can't preview: inputs are known, other outputs are not.
      return registered({ ...made, outputs: made.inputs ?? {} });
    }
    this.#runner.reporter.start(step);
    const type = old === undefined ? "creating" : "updating";
    this.#pending.set(step.urn, { type, resource: old ?? made });
    this.#save();
    try {
      const resource = await work();
      this.#pending.delete(step.urn);
      this.#note(step, resource);
      return registered(resource);
    } catch (error) {
      // The operation stays pending: its effects are unknown, so the next run repeats it. A created resource that does not work is kept, so
      // that it can be deleted, and is updated by the next run.
      const { name, id, properties, message } = error as Error & { id?: string; properties?: Properties };
      if (name === "InitializationError" && id !== undefined) {
        const resource = { ...made, id, outputs: properties ?? {} };
        this.#pending.set(step.urn, { type: "updating", resource });
        this.#done.set(step.urn, resource);
      }
      this.#save();
      throw new Error(`${step.operation} of ${step.name} (${step.type}): ${message}`, { cause: error });
    }
  }

  async #delete(resource: ResourceState, operation: "delete" | "delete-replaced"): Promise<void> {
    const { urn, type, id = "", outputs = {}, custom } = resource;
    const { isPreview, reporter } = this.#runner;
    const step = stepOf(resource, operation);
    if (!isProvider(resource)) reporter.start(step);
    if (custom && !isProvider(resource) && !isPreview)
      await this.#handler(type).delete(id, outputs, this.#context(urn));
    if (!this.#replaced.delete(resource)) this.#old.delete(urn);
    if (operation === "delete") this.#pending.delete(urn);
    this.#save();
    if (!isProvider(resource)) reporter.end(step);
  }

  #save(): void {
    if (this.#runner.isPreview) return;
    const rest = [...this.#old.values()].filter(({ urn }) => !this.#done.has(urn));
    this.#runner.save({
      resources: [...this.#done.values(), ...rest, ...this.#replaced],
      pending: [...this.#pending.values()],
    });
  }

  /**
   * Creates that were interrupted: they are not among the resources, yet may have an effect. Only their inputs are known, by which a
   * provider that can repeat a create can also delete.
   */
  #halfMade(): ResourceState[] {
    return [...this.#pending.values()]
      .filter(({ type, resource }) => type === "creating" && !this.#old.has(resource.urn))
      .map(({ resource }) => ({ ...resource, outputs: resource.inputs ?? {} }));
  }

  #handler(type: string): ResourceHandler {
    const handler = this.#runner.handlerOf(type);
    if (handler === undefined) throw new Error(`The state has a resource of the unknown type ${type}.`);
    return handler;
  }

  #context(urn: string) {
    const { name } = urnParts(urn);
    return { report: (line: string) => this.#runner.reporter.progress(name, line) };
  }

  /** Registers the package's default provider of the wanted version on first use, as the engine does. */
  #providerReference({ type, options }: Registration): string {
    const { stack, project } = this.#runner;
    const fresh = defaultProvider(stack, project, type.split(":")[0] ?? "", options.version);
    const provider = this.#done.get(fresh.urn) ?? this.#old.get(fresh.urn) ?? fresh;
    this.#done.set(provider.urn, provider);
    return `${provider.urn}::${provider.id ?? ""}`;
  }
}

function stepOf(
  { urn, type }: Pick<ResourceState, "urn" | "type">,
  operation: Operation,
  changes: readonly PropertyChange[] = [],
  replaceReasons: readonly string[] = [],
): Step {
  return { operation, urn, type, name: urnParts(urn).name, changes, replaceReasons };
}

/** The engine's own bookkeeping, which no provider knows and no report shows. */
function isProvider({ type }: ResourceState): boolean {
  return type.startsWith("pulumi:providers:");
}

function toState(registration: Registration): ResourceState {
  const { urn, custom, type, inputs, parent, dependencies, propertyDependencies } = registration;
  return {
    urn,
    custom,
    type,
    ...(type === "pulumi:pulumi:Stack" ? {} : { inputs }),
    ...(parent === "" ? {} : { parent }),
    ...(dependencies.length > 0 ? { dependencies } : {}),
    ...(custom ? { propertyDependencies } : {}),
  };
}

/** Parts of an existing resource that an operation keeps. */
function kept({ id, outputs }: Partial<ResourceState> = {}): Pick<ResourceState, "id" | "outputs"> {
  return { ...(id === undefined ? {} : { id }), ...(outputs === undefined ? {} : { outputs }) };
}

/** The answer to a registration. */
function registered(resource: ResourceState): Registered {
  return { outputs: {}, ...kept(resource) };
}

/**
 * Deletes each resource as soon as its dependents are gone, as the engine does.
 *
 * @param resources - In the order in which they were made.
 * @throws Error of the first failed deletion. No other deletion begins after it, and those that had begun have ended.
 */
async function deleteAll(
  resources: readonly ResourceState[],
  remove: (resource: ResourceState) => Promise<void>,
): Promise<void> {
  const deletions = new Map<ResourceState, Promise<void>>();
  const failures: unknown[] = [];
  for (const resource of resources.toReversed()) {
    const dependents = [...deletions].filter(([other]) => dependsOn(other, resource));
    const deletion = Promise.all(dependents.map(([, gone]) => gone))
      .then(() => (failures.length > 0 ? undefined : remove(resource)))
      .catch((error: unknown) => void failures.push(error));
    deletions.set(resource, deletion);
  }
  await Promise.all(deletions.values());
  if (failures.length > 0) throw failures[0];
}

function dependsOn({ parent, provider, dependencies }: ResourceState, { urn }: ResourceState): boolean {
  return parent === urn || provider?.startsWith(`${urn}::`) === true || dependencies?.includes(urn) === true;
}

/** Removes dependencies on deleted resources. */
function withoutDangling(resource: ResourceState, urns: ReadonlySet<string>): ResourceState {
  const present = (list: readonly string[] = []) => list.filter((urn) => urns.has(urn));
  const { dependencies, propertyDependencies } = resource;
  const byProperty = Object.entries(propertyDependencies ?? {}).map(([key, list]) => [key, present(list)]);
  return {
    ...resource,
    ...(dependencies && { dependencies: present(dependencies) }),
    ...(propertyDependencies && { propertyDependencies: Object.fromEntries(byProperty) }),
  };
}

function containsSecret(value: unknown): boolean {
  if (isSecret(value)) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(containsSecret);
}
