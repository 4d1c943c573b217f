// What starts a policy pack compiles `.ts` files in a way of its own, which refuses this project's imports: the pack is
// loaded as the commands are.
module.exports = async () => {
  const { importSource } = await import("../loader/import-source.mjs");
  (await importSource("policy/pack.ts")).servePack();
};
