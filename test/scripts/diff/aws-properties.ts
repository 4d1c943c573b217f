import { readFileSync } from "node:fs";
import { join } from "node:path";
import { projectRoot } from "../../../scripts/program/stack-file.ts";

/** Names of the properties of a resource of @pulumi/aws, from its declarations. @param type - `aws:ec2/vpc:Vpc` */
export function awsProperties(type: string): readonly string[] {
  const [, file = "", name = ""] = type.split(":");
  const text = readFileSync(join(projectRoot, "node_modules/@pulumi/aws", `${file}.d.ts`), "utf8");
  const body = new RegExp(`^export interface ${name}Args \\{$([\\s\\S]*?)^\\}$`, "m").exec(text)?.[1];
  if (body === undefined) throw new Error(`${file}.d.ts has no ${name}Args.`);
  return [...body.matchAll(/^ {4}(\w+)\??:/gm)].map(([, property = ""]) => property);
}
