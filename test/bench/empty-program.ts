/** A program that registers nothing, loaded as the project's own: what previews are measured against. */
export {};
