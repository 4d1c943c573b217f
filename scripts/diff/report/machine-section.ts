/** What an update of the template that machines start from means for those that are there: no graph has it. */
import type { ResourceChange } from "../types.ts";
import { code, type Inline } from "./inline.ts";
import { listSection, type Section } from "./section.ts";

interface Rule {
  /** By the type of the component that has the template, as URNs have it. */
  readonly component: string;
  /** Whether a property of the template counts. */
  readonly counts: (path: string) => boolean;
  readonly words: string;
}

const TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate";

const RULES: readonly Rule[] = [
  {
    component: "engine-room:aws:Instance",
    counts: (path) => /^(blockDeviceMappings|imageId)\b/.test(path),
    words:
      "the machine that is there keeps its image and its root disk; another one starts with these, and docs/aws.md says how to get it (“A newer machine image, another root disk”)",
  },
  {
    component: "engine-room:aws:GpuNodePool",
    // Its own tags make no version of it.
    counts: (path) => !/^(tags|tagsAll|updateDefaultVersion)\b/.test(path),
    words:
      "EKS replaces the machines of its pool one at a time, and gives them the newest image too; with GPUs the old one ends first, and its models are away meanwhile",
  },
];

/** Nothing where no machine is there already, as with a template that is new. */
export function machineSections(resources: readonly ResourceChange[]): readonly Section[] {
  const items = resources.flatMap(({ kind, urn, type, label, properties }): Inline[] => {
    if (kind !== "update" || type !== TEMPLATE) return [];
    return RULES.filter(
      ({ component, counts }) =>
        urn.includes(`${component}$${TEMPLATE}::`) && properties.some(({ path }) => counts(path)),
    ).map(({ words }): Inline => [code(label), `: ${words}.`]);
  });
  return listSection("Machines that are there", items, { folded: "never" });
}
