/** Whether EKS takes the add-ons of a cluster: their versions, and what they are set to. Pure. */
import { z } from "zod";
import type { Answer } from "../aws/session.ts";
import type { AwsTarget } from "../program/aws-target.ts";
import { unansweredOf } from "./aws-words.ts";
import { type Finding, isOlder, problem, warning } from "./finding.ts";

export interface AddOn {
  readonly name: string;
  readonly version: string;
  /** null: its defaults. */
  readonly configuration: Readonly<Record<string, unknown>> | null;
}

/** @param answers - Versions that EKS installs, by add-on. */
export function addOnFindings(
  { plan }: AwsTarget,
  addOns: readonly Omit<AddOn, "configuration">[],
  answers: ReadonlyMap<string, Answer<ReadonlySet<string>>>,
): readonly Finding[] {
  if (plan.compute !== "eks") return [];
  const asked = new Map(addOns.map(({ name, version }) => [`${name} ${version}`, answers.get(name)]));
  const unknown = unansweredOf("addOns", asked, (names) => `nobody knows whether EKS installs ${names}`);
  const refused = addOns.flatMap(({ name, version }) => {
    const answer = answers.get(name);
    if (answer?.kind !== "answer" || answer.value.has(version)) return [];
    const newest = [...answer.value].toSorted((a, b) => (isOlder(plain(a), plain(b)) ? 1 : -1))[0];
    return [
      problem(
        "addOns",
        `EKS does not install ${name} ${version}.`,
        newest === undefined
          ? `It has no version of it for Kubernetes ${plan.config.cluster.version} in ${plan.config.region}.`
          : `For Kubernetes ${plan.config.cluster.version} in ${plan.config.region} it has ${answer.value.size} versions, and ${newest} is the newest.`,
        "Take a version of this project that is newer, or another `cluster.version`.",
      ),
    ];
  });
  return [...unknown, ...refused];
}

/** `v1.19.2-eksbuild.5` without the letters that order nothing. */
function plain(version: string): string {
  return version.replace(/^v/, "").replace("eksbuild.", "");
}

/** @param answers - EKS' JSON schema of what is set, by add-on; none of those that it does not install. */
export function addOnConfigurationFindings(
  addOns: readonly AddOn[],
  answers: ReadonlyMap<string, Answer<string>>,
): readonly Finding[] {
  const unknown = unansweredOf(
    "addOns",
    answers,
    (names) => `nobody knows whether EKS takes what ${names} are set to`,
  );
  const refused = addOns.flatMap(({ name, version, configuration }) => {
    const answer = answers.get(name);
    if (answer?.kind !== "answer") return [];
    const schema = schemaOf(answer.value);
    if (schema === null)
      return [
        warning(
          "addOns",
          `Whether EKS takes what ${name} ${version} is set to is not known.`,
          "Its schema is in words that this project does not read.",
          `Compare by hand: aws eks describe-addon-configuration --addon-name ${name} --addon-version ${version}`,
        ),
      ];
    const { error } = schema.safeParse(configuration);
    if (error === undefined) return [];
    const why = error.issues.map(({ path, message }) => `${path.join(".") || "At the top"}: ${message}`);
    return [
      problem(
        "addOns",
        `EKS does not take what ${name} ${version} is set to.`,
        `${why.join("; ")}.`,
        "Take a version of this project that is newer, or another `cluster.version`.",
      ),
    ];
  });
  return [...unknown, ...refused];
}

/**
 * EKS names drafts of JSON Schema that zod has not (06, 2019-09), and uses of them what those that it has share: where definitions
 * are tells which. null: no schema that zod reads.
 */
function schemaOf(text: string): z.ZodType | null {
  try {
    const schema = JSON.parse(text) as Record<string, unknown>;
    const draft =
      "definitions" in schema
        ? "http://json-schema.org/draft-07/schema#"
        : "https://json-schema.org/draft/2020-12/schema";
    return z.fromJSONSchema({ ...schema, $schema: draft });
  } catch {
    return null;
  }
}
