/** What goes first where not everything fits. Cost: none. Cluster-wide objects, named after the namespace. */
import { PriorityClass } from "@pulumi/kubernetes/scheduling/v1/priorityClass.js";
import * as pulumi from "@pulumi/pulumi";
import type { PriorityPlan } from "../../infra/plan/kubernetes/types.ts";

interface PriorityClassesArgs {
  readonly priorities: readonly PriorityPlan[];
}

export class PriorityClasses extends pulumi.ComponentResource {
  /** By name: what must be there before a pod of it is made. */
  readonly classes: Readonly<Record<string, PriorityClass>>;

  constructor(name: string, { priorities }: PriorityClassesArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:kubernetes:PriorityClasses", name, {}, opts);

    this.classes = Object.fromEntries(
      priorities.map((priority) => [priority.name, this.#createClass(name, priority)]),
    );
    this.registerOutputs({});
  }

  #createClass(
    name: string,
    { name: className, labels, value, preempts, description }: PriorityPlan,
  ): PriorityClass {
    return new PriorityClass(
      `${name}-${className}`,
      {
        metadata: { name: className, labels: { ...labels } },
        value,
        preemptionPolicy: preempts ? "PreemptLowerPriority" : "Never",
        description,
      },
      // The API refuses to change these, which the provider does not know; pods keep the value that they were made with.
      { parent: this, replaceOnChanges: ["value", "preemptionPolicy"], deleteBeforeReplace: true },
    );
  }
}
