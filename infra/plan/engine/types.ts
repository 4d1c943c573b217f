/** Parts of the plan of an engine. */
import type { EngineBuildSpec } from "../container-spec-schemas.ts";

export type EnginePlan = NonNullable<EngineBuildSpec["plan"]>;

export type EngineKeyFields = EnginePlan["keyFields"];

export type VisualNumbers = NonNullable<EnginePlan["visual"]>;

export type StepName = EnginePlan["steps"][number]["name"];
