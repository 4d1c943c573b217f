/**
 * Entry point of the services' image: `entrypoint.ts SERVICE [ARGUMENT …]`. The service runs in the same process: its
 * signals and exit code are the container's.
 */
const SERVICES = ["gateway", "mock-mongo", "mock-vector"];

const [node = process.execPath, , service = "", ...serviceArguments] = process.argv;
if (SERVICES.includes(service)) {
  const main = new URL(`./${service}/src/main.ts`, import.meta.url);
  process.argv = [node, main.pathname, ...serviceArguments];
  await import(main.href);
} else {
  const problem = service === "" ? "The name of a service is missing" : `There is no service ${service}`;
  process.stderr.write(`${problem}; the first argument must be one of ${SERVICES.join(", ")}.\n`);
  process.exitCode = 2;
}
