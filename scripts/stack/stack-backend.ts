/** What can be done with the resources of a stack, whoever applies it. */
import type { StackOutputs } from "../../infra/outputs.ts";
import type { StackRecord } from "./deployment.ts";

export interface UpOptions {
  /** Called when nothing refuses the stack any more, before anything is changed. */
  readonly onBegin?: () => void;
  /**
   * Whether mandatory policies end it: those about single resources before each is made, those about the stack in a preview
   * that goes before. @default false
   */
  readonly enforcesPolicies?: boolean;
  /** URNs, with `**` for any text: these alone, where the Pulumi CLI has the stack. @default all */
  readonly targets?: readonly string[];
}

export interface StackBackend {
  /** Shown to the user. */
  readonly title: string;
  /** Shows what `up` would do. @returns whether anything would change. */
  preview(): Promise<boolean>;
  /** Makes the stack what its file says, after reading what there really is. */
  up(options?: UpOptions): Promise<void>;
  /** Reads what there really is into the state. */
  refresh(): Promise<void>;
  /** What the state has of the stack; begun operations count as resources. */
  record(): Promise<StackRecord>;
  /** Deletes everything, and the state with it. */
  down(): Promise<void>;
  /** Outputs of the last `up`; undefined before the first one. */
  outputs(): Promise<StackOutputs | undefined>;
}
