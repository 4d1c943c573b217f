/** URNs: `urn:pulumi:STACK::PROJECT::PARENT_TYPE$TYPE::NAME`, as `sdk/go/common/resource/urn` of Pulumi has them. */

interface UrnParts {
  readonly stack: string;
  readonly project: string;
  /** Types of all parents below the stack, then its own, with `$` between them. */
  readonly qualifiedType: string;
  readonly type: string;
  /** May have `::` itself. */
  readonly name: string;
}

/** What is missing is empty. */
export function urnParts(urn: string): UrnParts {
  const [head = "", project = "", qualifiedType = "", ...name] = urn.split("::");
  return {
    stack: head.replace(/^urn:pulumi:/, ""),
    project,
    qualifiedType,
    type: qualifiedType.split("$").at(-1) ?? "",
    name: name.join("::"),
  };
}

/** As the engine makes it. @param parts - `parent`: a URN; empty for the stack itself. */
export function makeUrn({
  stack,
  project,
  parent,
  type,
  name,
}: Omit<UrnParts, "qualifiedType"> & { readonly parent: string }): string {
  const { qualifiedType: above } = urnParts(parent);
  const qualifiedType = above === "" || above === "pulumi:pulumi:Stack" ? type : `${above}$${type}`;
  return `urn:pulumi:${stack}::${project}::${qualifiedType}::${name}`;
}
