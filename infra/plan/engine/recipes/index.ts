/** All recipe tables, by the range that a release of the catalogue names. */
import { release08 } from "./release-0.8.ts";
import { release09 } from "./release-0.9.ts";
import { release010To018 } from "./release-0.10-0.18.ts";
import { release019 } from "./release-0.19.ts";
import { release020To11 } from "./release-0.20-1.1.ts";
import type { RecipeRange, RecipeTable } from "./types.ts";

export const recipeTables: Readonly<Record<RecipeRange, RecipeTable>> = {
  "0.8": release08,
  "0.9": release09,
  "0.10-0.18": release010To018,
  "0.19": release019,
  "0.20-1.1": release020To11,
};
