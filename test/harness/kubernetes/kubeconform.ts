/** kubeconform with schemas of the very server that the tests run; nothing is asked of the network. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { customResourceDefinitions } from "./apply.ts";
import type { BuiltModules } from "./go-build.ts";
import type { KubernetesObject } from "./objects.ts";
import {
  SCHEMA_LOCATION,
  type SchemaFiles,
  type Swagger,
  schemasOfDefinition,
  schemasOfSwagger,
} from "./schemas.ts";

const TIMEOUT_SECONDS = 120;
const MAX_OUTPUT_BYTES = 64 * 2 ** 20;

/** kubeconform's result for an object; fields of `-output json`. */
interface Resource {
  readonly kind: string;
  readonly name: string;
  readonly status: "statusValid" | "statusInvalid" | "statusError" | "statusSkipped" | "statusEmpty";
  readonly msg: string;
}

export class SchemaCheck {
  readonly #modules: BuiltModules;
  readonly #folder = mkdtempSync(join(tmpdir(), "engine-room-schemas-"));

  constructor(modules: BuiltModules) {
    this.#modules = modules;
    const swagger = JSON.parse(readFileSync(join(modules.kube, "swagger.json"), "utf8")) as Swagger;
    this.#write(schemasOfSwagger(swagger));
    for (const definition of customResourceDefinitions(modules.crds))
      this.#write(schemasOfDefinition(definition));
  }

  #write(files: SchemaFiles): void {
    for (const [name, schema] of files) writeFileSync(join(this.#folder, name), JSON.stringify(schema));
  }

  /** Removes the schemas. */
  dispose(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** A line for each fault, sorted: `Deployment llava /spec/replicas: got string, want integer`. */
  async faults(objects: readonly KubernetesObject[]): Promise<string[]> {
    const file = join(this.#folder, "objects.yaml");
    writeFileSync(file, objects.map((object) => JSON.stringify(object)).join("\n---\n"));
    const flags = ["-strict", "-verbose", "-output", "json"];
    const location = ["-schema-location", join(this.#folder, SCHEMA_LOCATION)];
    const answer = await output(join(this.#modules.kubeconform, "kubeconform"), [
      ...flags,
      ...location,
      file,
    ]);
    const { resources } = JSON.parse(answer) as { readonly resources: readonly Resource[] };
    if (resources.length !== objects.length)
      throw new Error(`kubeconform looked at ${resources.length} of ${objects.length} objects.`);
    return resources
      .filter(({ status }) => status !== "statusValid")
      .flatMap(faultsOf)
      .toSorted();
  }
}

/** The list of faults ends where a schema refers to another; the text continues. */
function faultsOf({ kind, name, status, msg }: Resource): readonly string[] {
  const lines = [...msg.matchAll(/- at '([^']*)': (.*?)(?=\s+- at '|$)/g)];
  if (lines.length === 0) return [`${kind} ${name}: ${msg || status}`];
  return lines.map(([, path, fault]) => `${kind} ${name} ${path}: ${fault}`);
}

/** Standard output. Faults in objects are not failures of the program. */
function output(program: string, argv: readonly string[]): Promise<string> {
  const options = { timeout: TIMEOUT_SECONDS * 1000, maxBuffer: MAX_OUTPUT_BYTES };
  return new Promise((resolve, reject) => {
    execFile(program, argv, options, (error, stdout, stderr) => {
      if (error === null || stdout.startsWith("{")) resolve(stdout);
      else reject(new Error(`kubeconform ended with ${error.code}: ${stderr.trim() || error.message}`));
    });
  });
}

/** Objects of a text with several. @throws Error at invalid YAML, such as a duplicate key. */
export function objectsOfYaml(text: string): KubernetesObject[] {
  return parseAllDocuments(text).flatMap((document) => {
    const [error] = document.errors;
    if (error !== undefined) throw error;
    const object = document.toJS() as KubernetesObject | null;
    return object === null ? [] : [object];
  });
}
