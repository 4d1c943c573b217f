/** Letters of the zones of a region, after its name; no region has more: us-east-1 has all six. */
export const ZONE_LETTERS = ["a", "b", "c", "d", "e", "f"] as const;
export type ZoneLetter = (typeof ZONE_LETTERS)[number];
