/** Arguments of Pulumi's providers as data: without promises and outputs. */
import type { OutputInstance } from "@pulumi/pulumi";

export type Plain<T> = T extends Promise<unknown> | OutputInstance<unknown>
  ? never
  : T extends readonly (infer Item)[]
    ? Plain<Item>[]
    : T extends object
      ? { readonly [Key in keyof T]: Plain<T[Key]> }
      : T;
