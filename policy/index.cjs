// What starts a policy pack takes no options of Node, and compiles `.ts` files in a way of its own, which refuses this
// project's imports: tsx reads them here, as it does for the commands.
module.exports = async () => {
  const { register } = await import("tsx/esm/api");
  register();
  await import("./serve.ts");
};
