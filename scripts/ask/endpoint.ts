/** Who is asked where the command line does not say: the endpoint by which a plain question gets an answer. */
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import type { Question } from "./question.ts";

export const ENDPOINTS = ["triton", "gateway"] as const;
export type AskedEndpoint = (typeof ENDPOINTS)[number];

/**
 * The gateway for a question in words to a model with a chat template: such a model ends a bare text at once. Triton for all else:
 * a question about pictures has the model's prompt around it there too, and takes pictures by their address.
 *
 * @param isOverGrpc - Which the gateway does not speak.
 */
export function usualEndpoint(
  plan: StackPlan,
  { model, images }: Pick<Question, "model" | "images">,
  isOverGrpc: boolean,
): AskedEndpoint {
  return !isOverGrpc && images.length === 0 && chats(plan, model) ? "gateway" : "triton";
}

/** Whether the gateway has a chat template for a model; false for one that the plan lacks. */
export function chats(plan: StackPlan, name: string): boolean {
  if (plan.tier === "cpu") return plan.models.some((model) => model.name === name);
  const model = plan.models.find((one) => one.name === name);
  return model?.spec.engine.row.chat !== undefined;
}
