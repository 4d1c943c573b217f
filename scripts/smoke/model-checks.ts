/** A language model's golden question, put to its Triton in the model's own shape, and to the gateway. */
import { type AskedModel, answer, atGateway, atTriton, CantAskError } from "../ask/golden.ts";
import { gatewayCompletion, type PreparedRequest } from "../ask/prepared-request.ts";
import { type Check, CheckSkipped, expect, quote } from "./requests.ts";

/** What the gateway has for the model: a chat where there is a template, and a text to go on with where it needs no picture. */
export function gatewayModelChecks(model: AskedModel): Check[] {
  const { name, profile, gateway, chats, apiKey } = model;
  const endpoint = (path: string) => `gateway POST /v1/${path} ${name}`;
  const prompt = { model: name, text: "The capital of France is", images: [], maxTokens: 8, stream: false };
  return [
    ...(chats
      ? [
          asked(endpoint("chat/completions"), model, () => atGateway(model)),
          streamed(`${endpoint("chat/completions")} (stream)`, model, () => atGateway(model, true)),
        ]
      : []),
    ...(profile.image?.isRequired === true
      ? []
      : [
          asked(endpoint("completions"), model, () =>
            gatewayCompletion(gateway, prompt, apiKey !== undefined),
          ),
        ]),
  ];
}

/** Triton's generate extension. */
export function generateChecks(model: AskedModel): Check[] {
  return [
    asked(`${model.name} generate`, model, () => atTriton(model, model.golden, false)),
    streamed(`${model.name} generate_stream`, model, () => {
      if (!model.profile.decoupled) throw new CheckSkipped("its repository is not decoupled");
      return atTriton(model, model.golden, true);
    }),
  ];
}

function asked(name: string, model: AskedModel, request: () => PreparedRequest): Check {
  return { name, run: async () => quote((await answer(model, orSkipped(request))).text) };
}

function streamed(name: string, model: AskedModel, request: () => PreparedRequest): Check {
  return {
    name,
    run: async () => {
      const { text, figures } = await answer(model, orSkipped(request));
      return expect(figures.firstTextSeconds !== null, "the stream has no text", quote(text));
    },
  };
}

function orSkipped(request: () => PreparedRequest): PreparedRequest {
  try {
    return request();
  } catch (error) {
    throw error instanceof CantAskError ? new CheckSkipped(error.message) : error;
  }
}
