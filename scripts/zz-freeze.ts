// usage: node --import tsx scripts/zz-freeze.ts CORPUS OUT
import { mkdirSync, readFileSync, writeFileSync, rmSync, readdirSync } from "node:fs";
import { createHash } from "node:crypto";
import { prettyJson } from "./pretty-json.ts";
import { renderJson, renderStack } from "./render.ts";
import { readStackFile, stackReference } from "./program/stack-file.ts";
import { explain, explainableNames } from "./plan/explain.ts";
import { planReport } from "./plan/report.ts";
import { checkedPlan } from "../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../infra/config/config.ts";
import { loadPlan } from "../infra/load-plan.ts";
import { deploy } from "../infra/platforms/index.ts";

const [corpus, out, mode = "all"] = process.argv.slice(2) as string[];
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const write = (name: string, text: string) => writeFileSync(`${out}/${name}`, text.endsWith("\n") ? text : text + "\n");
const toRuntime = (v: Record<string, unknown>) => ({
  values: Object.fromEntries(Object.entries(v).map(([k, x]) => [`engine-room:${k}`, typeof x === "string" ? x : JSON.stringify(x)])),
  secretKeys: [],
});
async function one(id: string, stack: string, config: any, withRender: boolean) {
  try {
    const values = fromRuntimeConfig(config.values, "engine-room");
    const { plan, warnings } = checkedPlan(values);
    write(`${id}.plan.json`, prettyJson(mode === "all" ? { plan, warnings } : { warnings }));
    write(`${id}.report.txt`, planReport({ name: stack, options: `--stack ${stack}` }, plan, warnings));
    if ((plan as any).tier === "gpu") for (const n of explainableNames(plan as any)) write(`${id}.explain.${n}.sh`, explain(plan as any, n, { storePath: "/var/lib/engine-room/store" }) ?? "");
    if (withRender) {
      const r = await renderStack(stack, config, async () => ({ ...(await deploy(await loadPlan(values))) }));
      write(`${id}.render.json`, renderJson(r));
    }
  } catch (e: any) {
    write(`${id}.problems.txt`, String(e?.problems ? e.message : e?.stack ?? e));
  }
}
const quiet = console.error; process.stderr.write = ((x: any) => true) as any;
if (mode !== "corpus") {
  for (const [n, f] of [["local", "Pulumi.local.yaml"], ["kind", "Pulumi.kind.yaml"], ["onprem", "Pulumi.onprem.yaml"], ["dev", "Pulumi.dev.yaml"], ["prod", "Pulumi.prod.yaml"], ...readdirSync("examples").filter((f) => f.endsWith(".yaml")).map((f) => [f.replace(".yaml", ""), `examples/${f}`])])
    await one(`stack.${n}`, n!, readStackFile(stackReference(n!, f)), true);
}
if (corpus) {
  const lines = readFileSync(corpus, "utf8").trim().split("\n");
  let bad = "";
  for (const line of lines) {
    const { render, ...v } = JSON.parse(line) as any;
    const id = createHash("sha256").update(line).digest("hex").slice(0, 8);
    if (render) await one(`c.${id}`, "demo", toRuntime(v.values), true);
    else {
      // problems and warnings only, in one file
      try { const { warnings, plan } = checkedPlan(v.values); bad += `== ${id} OK ${createHash("sha256").update(prettyJson((plan as any).cost)).digest("hex").slice(0,8)}\n${warnings.map((w: any) => `${w.path} = ${w.value}\n  ${w.reason}\n  ${w.fix}\n`).join("")}`; }
      catch (e: any) { bad += `== ${id}\n${e?.problems ? e.message : e?.stack}\n`; }
    }
  }
  write("corpus.txt", bad);
}
process.exit(0);
