/** A chat's messages as the one prompt that its model was trained on. */
import { Template } from "@huggingface/jinja";
import { invalidRequest } from "../errors.ts";

/** A message whose content is text already. */
export interface ChatTurn {
  readonly role: string;
  readonly content: string;
  readonly name?: string;
}

/** A compiled template of one model. */
export class ChatTemplate {
  readonly #template: Template;
  readonly #specialTokens: { readonly bos_token: string; readonly eos_token: string };

  /** @throws Error when the source is no valid template; the configuration's check runs the same parser first. */
  constructor(source: string, bosToken: string, eosToken: string) {
    this.#template = new Template(source);
    this.#specialTokens = { bos_token: bosToken, eos_token: eosToken };
  }

  /**
   * The prompt, ending where the assistant begins to speak.
   * @throws ApiError 400 when the template refuses the messages, as many do for roles that do not alternate.
   */
  render(turns: readonly ChatTurn[]): string {
    try {
      return this.#template.render({ ...this.#specialTokens, messages: turns, add_generation_prompt: true });
    } catch (error) {
      throw invalidRequest(
        `The model's chat template refuses these messages: ${(error as Error).message}`,
        "messages",
        "invalid_messages",
      );
    }
  }
}
