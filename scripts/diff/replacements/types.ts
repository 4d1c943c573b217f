/** What a changed property does to a resource, by type: rows written by hand, each with its source. */

type Inputs = Readonly<Record<string, unknown>>;

/** Around a property that changed. */
export interface ReplacementContext {
  readonly before: Inputs;
  readonly after: Inputs;
  /** Of the explicit provider of the resource; empty for a default one. */
  readonly provider: Inputs;
}

/** Paths have names only: `spec.ports.port` is the port of every element. Each stands for all below it. */
export interface ReplacementRow {
  readonly replaces: readonly string[];
  readonly updates: readonly string[];
  /** What the provider sets no store by: no difference. */
  readonly ignores?: readonly string[];
  /** What replaces or updates depending on the rest of the resource. */
  readonly replacesWhen?: {
    readonly paths: readonly string[];
    readonly is: (context: ReplacementContext) => boolean;
  };
  /** Whether the old one goes first where it has to be replaced, unless the program's options say something else. */
  readonly deletesFirst: (context: Omit<ReplacementContext, "provider">) => boolean;
}
