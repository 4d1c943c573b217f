/** A folder of models as Triton loads it. */
import * as pulumi from "@pulumi/pulumi";
import type { JsonObject, ModelRepositoryInputs, RepositoryArtifact, RepositoryFile } from "./types.ts";

interface ModelRepositoryArgs {
  readonly directory: pulumi.Input<string>;
  readonly python: pulumi.Input<string>;
  readonly files: pulumi.Input<Record<string, pulumi.Input<RepositoryFile>>>;
  readonly artifacts: pulumi.Input<Record<string, pulumi.Input<RepositoryArtifact>>>;
  /** `repositoryDigest` of files and artifacts. */
  readonly digest: pulumi.Input<string>;
}

export class ModelRepository extends pulumi.CustomResource {
  declare readonly directory: pulumi.Output<string>;
  declare readonly digest: pulumi.Output<ModelRepositoryInputs["digest"]>;
  /** `facts.json` of each artifact, by its folder. */
  declare readonly facts: pulumi.Output<Record<string, JsonObject>>;

  constructor(name: string, args: ModelRepositoryArgs, options?: pulumi.CustomResourceOptions) {
    super("local:index:ModelRepository", name, { ...args, facts: undefined }, options);
  }
}
