/** What Triton loads, as data: the entry point in the image turns it into files. */
import type { RepositoryClone } from "../engine/release.ts";

/** One folder of a model repository. */
export interface RepositoryModel {
  /** Folder, and the name that Triton serves it under. */
  readonly name: string;
  /**
   * Template it is made from, below all_models: `inflight_batcher_llm/tensorrt_llm`; null for a model whose files the
   * plan gives. Its folder is copied whole, and gets an empty version folder `1` where the template has none.
   */
  readonly template: string | null;
  /** Where the template lies; absent: the plan's `allModels`. */
  readonly templateRoot?: string | undefined;
  /** Values by placeholder, sorted; exactly these are handed to fill_template. */
  readonly substitutions: Readonly<Record<string, string>>;
  /** Placeholders of the template that keep Triton's own default, with the reason. */
  readonly defaults: Readonly<Record<string, string>>;
  /**
   * Fields of config.pbtxt that are no placeholder and must have this value, as protobuf text by name of the field:
   * `max_batch_size` to `4`. A line that begins with the field's name goes, and `name: value` comes at the end.
   */
  readonly configFields?: Readonly<Record<string, string>> | undefined;
  /** Files by path below the folder; they replace those of the template. */
  readonly files?: Readonly<Record<string, string>> | undefined;
}

/** How the server is started. */
export interface LaunchPlan {
  readonly worldSize: number;
  /** The line a person types: launch_triton_server.py and its arguments. */
  readonly argv: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

export interface RepositoryPlan {
  readonly flavour: string;
  /** Set of templates, as in catalogue/templates.ts. */
  readonly templates: string;
  /** Where all_models is in the image. */
  readonly allModels: string;
  /** Where fill_template.py is in the image. */
  readonly fillTemplate: string;
  /** Empty where NVIDIA's image has everything. */
  readonly clones: readonly RepositoryClone[];
  readonly path: string;
  /** Sorted by name. */
  readonly models: readonly RepositoryModel[];
  readonly launch: LaunchPlan;
  /** Triton model that clients ask. */
  readonly clientModel: string;
  /** Model for streaming, where it is another one. */
  readonly streamingModel: string;
  readonly decoupled: boolean;
}
