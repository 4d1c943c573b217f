/**
 * The try-out runner: applies `local:` resources without the Pulumi CLI. It follows the engine's rules for exactly the
 * operations that such a graph needs (create, update, replace, delete, same, refresh) and refuses everything else;
 * a recorded run of the real engine is the test of that. It is no second engine for clouds.
 */
import { propertyChanges } from "../program/changes.ts";
import type { MonitorOwner, Registered, Registration, RegistrationOptions } from "../program/monitor.ts";
import type { Properties } from "../program/serialized.ts";
import type { Step } from "../stack/preview-text.ts";
import { defaultProvider, type PendingOperation, type ResourceState } from "./state.ts";
import {
  containsSecret,
  deleteAll,
  identity,
  interruptedCreates,
  isProvider,
  newStep,
  partialResult,
  type ResourceProvider,
  type RunnerState,
  registered,
  type StepObserver,
  stepOnState,
  toState,
} from "./steps.ts";

interface EngineOptions extends StepObserver {
  readonly project: string;
  readonly stack: string;
  readonly preview: boolean;
  readonly provider: ResourceProvider;
  readonly state: RunnerState;
  /** Called after each change of state; a preview never calls it. */
  readonly save: (resources: ResourceState[], pending: PendingOperation[]) => void;
}

/** Resource options with a meaning that this runner has; any other is refused, for silence would be a wrong result. */
const UNDERSTOOD_OPTIONS: readonly (keyof RegistrationOptions)[] = ["version"];

export class TryoutEngine implements MonitorOwner {
  /** Why the run ends: the first step that failed. */
  failure: Error | undefined;
  readonly #options: EngineOptions;
  readonly #old: Map<string, ResourceState>;
  readonly #done: ResourceState[] = [];
  readonly #replaced: ResourceState[];
  /** Begun and not ended, by this run or by an interrupted one: done again even where nothing else changed. */
  readonly #pending: Map<string, PendingOperation>;
  readonly #underWay = new Set<Promise<void>>();

  constructor(options: EngineOptions) {
    const { resources, pending } = options.state;
    this.#options = options;
    this.#old = new Map(resources.filter((r) => r.delete !== true).map((r) => [r.urn, r]));
    this.#replaced = resources.filter((resource) => resource.delete === true);
    this.#pending = new Map(pending.map((operation) => [operation.resource.urn, operation]));
  }

  register(registration: Registration): Promise<Registered> {
    const work = this.#register(registration);
    const ended = work.then(
      () => {},
      (error: Error) => this.fail(error),
    );
    this.#underWay.add(ended);
    void ended.then(() => this.#underWay.delete(ended));
    return work;
  }

  fail(error: Error): void {
    this.failure ??= error;
  }

  /** Steps that were begun before one failed are ended, not cut off: what they made belongs into the state. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
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
    const halfMade = interruptedCreates(this.#options.state).filter((resource) => !wanted.has(resource.urn));
    const leftover = [...this.#old.values()].filter((resource) => !wanted.has(resource.urn));
    await deleteAll([...this.#replaced], (resource) => this.#delete(resource, "delete-replaced"));
    await deleteAll([...leftover, ...halfMade], (resource) => this.#delete(resource, "delete"));
  }

  async #register(registration: Registration): Promise<Registered> {
    if (this.failure !== undefined) throw new Error("Not begun, because another step failed.");
    this.#refuseWhatIsNotUnderstood(registration);
    return registration.custom ? this.#registerCustom(registration) : this.#registerComponent(registration);
  }

  #refuseWhatIsNotUnderstood(registration: Registration): void {
    const { type, name, custom, options, inputs, readId } = registration;
    const refuse = (what: string): never => {
      throw new Error(
        `${name} (${type}) ${what}, which needs the Pulumi CLI; without it only local: resources are applied.`,
      );
    };
    if (custom && (!this.#options.provider.supports(type) || readId !== undefined))
      refuse("is no local: resource to create");
    const unknown = Object.keys(options).find(
      (key) => !(UNDERSTOOD_OPTIONS as readonly string[]).includes(key),
    );
    if (unknown !== undefined) refuse(`uses the resource option ${unknown}`);
    const secret = Object.entries(inputs).find(([, value]) => containsSecret(value));
    if (secret !== undefined) refuse(`takes a secret in ${secret[0]}`);
  }

  #registerComponent(registration: Registration): Registered {
    const old = this.#old.get(registration.urn);
    const changes = old === undefined ? [] : propertyChanges(old.inputs ?? {}, registration.inputs);
    const operation = old === undefined ? "create" : changes.length > 0 ? "update" : "same";
    const resource = toState(registration);
    if (old?.outputs !== undefined) resource.outputs = old.outputs;
    this.#note(newStep(registration, operation, changes), resource);
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
      const lines = failures.map(
        ({ property, reason }) => `${name}${property === "" ? "" : `.${property}`}: ${reason}`,
      );
      throw new Error(lines.join("\n"));
    }
    const checked = { ...registration, inputs };
    const changes = propertyChanges(old?.inputs ?? {}, inputs);
    if (old === undefined) return this.#create(checked, newStep(registration, "create", changes));

    const diff = await provider.diff({ type, id: old.id ?? "", olds: old.outputs ?? {}, news: inputs });
    if (diff.changes && diff.replaces.length > 0) {
      if (diff.deleteBeforeReplace && !preview) await this.#delete(old, "delete-replaced");
      return this.#create(checked, newStep(registration, "replace", changes, diff.replaces));
    }
    if (diff.changes || this.#pending.has(urn))
      return this.#update(checked, old, newStep(registration, "update", changes));
    const resource = { ...toState(checked, this.#providerReference(checked)), ...identity(old) };
    this.#note(newStep(registration, "same"), resource);
    return registered(old);
  }

  async #create(registration: Registration, step: Step): Promise<Registered> {
    const resource = toState(registration, this.#providerReference(registration));
    if (this.#options.preview) return this.#preview(step, resource);
    return this.#perform(step, { type: "creating", resource }, resource, async () => {
      const { type, name, urn, inputs } = registration;
      const { id, outputs } = await this.#options.provider.create({ type, name, inputs });
      // The one that it replaces stays in the state until it is gone, so that an interrupted run still deletes it.
      const previous = this.#old.get(urn);
      if (previous !== undefined) this.#replaced.push({ ...previous, delete: true });
      return { ...resource, id, outputs };
    });
  }

  async #update(registration: Registration, old: ResourceState, step: Step): Promise<Registered> {
    const resource = { ...toState(registration, this.#providerReference(registration)), ...identity(old) };
    if (this.#options.preview) return this.#preview(step, resource);
    return this.#perform(step, { type: "updating", resource: old }, resource, async () => {
      const { type, name, inputs: news } = registration;
      const olds = old.outputs ?? {};
      return {
        ...resource,
        outputs: await this.#options.provider.update({ type, name, id: old.id ?? "", olds, news }),
      };
    });
  }

  /** As the engine does for providers that can't preview: inputs are known, every other output is not. */
  #preview(step: Step, resource: ResourceState): Registered {
    this.#note(step, resource);
    const id = step.operation === "update" ? resource.id : undefined;
    return { ...(id === undefined ? {} : { id }), outputs: resource.inputs ?? {} };
  }

  /** A step that takes no time. */
  #note(step: Step, resource: ResourceState): void {
    this.#options.onStart(step);
    this.#finish(resource);
    this.#options.onEnd(step, 0);
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
      throw new Error(`${step.operation} of ${step.name} (${step.type}): ${(error as Error).message}`, {
        cause: error,
      });
    }
  }

  async #delete(resource: ResourceState, operation: "delete" | "delete-replaced"): Promise<void> {
    const step = stepOnState(resource, operation);
    const { type, name } = step;
    const started = performance.now();
    if (!isProvider(resource)) this.#options.onStart(step);
    if (!this.#options.preview) {
      if (resource.custom && !isProvider(resource)) {
        await this.#options.provider.delete({
          type,
          name,
          id: resource.id ?? "",
          outputs: resource.outputs ?? {},
        });
      }
      const index = this.#replaced.indexOf(resource);
      if (index >= 0) this.#replaced.splice(index, 1);
      else this.#old.delete(resource.urn);
      if (operation === "delete") this.#pending.delete(resource.urn);
      this.#save();
    }
    if (!isProvider(resource)) this.#options.onEnd(step, (performance.now() - started) / 1000);
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
