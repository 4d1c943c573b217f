import type { OperationName } from "../service-models.ts";

/** What becomes of a property: a parameter of the row's operation, one of another call, or nothing that AWS is sent. */
export type Target =
  | string
  | { readonly operation: OperationName; readonly parameter: string }
  /** Why AWS's model says nothing of it. */
  | { readonly own: string };

/** How the provider makes a resource of one type. */
export interface OperationRow {
  readonly operation: OperationName;
  /** The parameter that has those of the same names as the properties. @default the operation itself */
  readonly base?: string;
  /**
   * By property; `vpcConfig.subnetIds` is one of a structure. Parameters are dotted, and `Name[]` is the one element of a
   * list, `Name[*]` one for each element of the property. Empty: what is in the structure has rows or names of its own. What
   * has the name of its parameter, but for capital letters, is left out.
   */
  readonly properties?: Readonly<Record<string, Target>>;
  /** Required parameters that the provider gives by itself. */
  readonly filled?: readonly string[];
  /** By parameter: values where the model has any text; or the shape that lists them, as `ec2:InstanceType`. */
  readonly allowed?: Readonly<Record<string, OperationName | readonly (string | number)[]>>;
  /** By parameter: the most characters, where the model does not say it. */
  readonly longest?: Readonly<Record<string, number>>;
}

export const by = (operation: OperationName, parameter: string): Target => ({ operation, parameter });
export const own = (reason: string): Target => ({ own: reason });
