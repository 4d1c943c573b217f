/** A program that registers nothing, loaded like the project's own: the baseline of previews. */
export {};
