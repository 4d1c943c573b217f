import type { OperationName } from "../service-models.ts";

/** Where a property is sent: in a parameter of the row's operation, in one of another call, or nowhere. */
export type Target =
  | string
  | { readonly operation: OperationName; readonly parameter: string }
  /** The reason why AWS's model lacks it. */
  | { readonly own: string };

/** How the provider makes a resource of one type. */
export interface OperationRow {
  readonly operation: OperationName;
  /** The parameter that has those of the same names as the properties. @default the operation itself */
  readonly base?: string;
  /**
   * By property; `vpcConfig.subnetIds` is in a structure. Parameters are dotted; `Name[]` is a list's only element,
   * `Name[*]` an element for each of the property's. Empty: the structure's members have rows or names of their own.
   * Properties with the name of their parameter, ignoring case, are omitted.
   */
  readonly properties?: Readonly<Record<string, Target>>;
  /** Required parameters that the provider gives by itself. */
  readonly filled?: readonly string[];
  /** By parameter: values if the model has any text; or the shape that lists them, as `ec2:InstanceType`. */
  readonly allowed?: Readonly<Record<string, OperationName | readonly (string | number)[]>>;
  /** By parameter: maximum length in characters, if the model lacks it. */
  readonly longest?: Readonly<Record<string, number>>;
}

export const by = (operation: OperationName, parameter: string): Target => ({ operation, parameter });
export const own = (reason: string): Target => ({ own: reason });
