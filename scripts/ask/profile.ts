/** How the models of a stack are asked: from its plan, so that requests and repository can't differ. */
import { type RequestProfile, requestProfile } from "@engine-room/triton-requests";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { nearestName } from "../../infra/problems.ts";
import { UserError } from "../errors.ts";

/** @throws UserError with the nearest name, or all of them, for a model that the stack does not have. */
export function profileOf({ models }: StackPlan, name: string): RequestProfile {
  const model = models.find((one) => one.name === name);
  if (model === undefined) {
    const names = models.map((one) => one.name);
    const nearest = nearestName(name, names);
    const hint = nearest === undefined ? `It has ${names.join(", ")}.` : `Did you mean ${nearest}?`;
    throw new UserError(`The stack has no model ${JSON.stringify(name)}. ${hint}`);
  }
  if ("request" in model) return model.request;
  const { endId, padId } = model.catalogue;
  return requestProfile("inflight_batcher_llm", { endId, padId });
}
