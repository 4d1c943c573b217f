/** Why a server can't listen. */
import { StartError } from "./start.ts";

interface Listener {
  readonly host: string;
  readonly port: number;
  /** What can't listen; "server" by default. */
  readonly what?: string;
  /** The option that chooses another port; `--port` by default. */
  readonly portOption?: string;
  /** How another host is chosen; by `--host` by default. */
  readonly hostFix?: string;
}

/** What Node says when a server can't listen, with the way out. */
export function listenError(error: unknown, listener: Listener): StartError {
  const { host, port, what = "server", portOption = "--port" } = listener;
  const { hostFix = "choose another one with --host" } = listener;
  const { code, message } = error as NodeJS.ErrnoException;
  switch (code) {
    case "EADDRINUSE":
      return new StartError(
        `Port ${port} of ${host} is taken by another process; choose another one with ${portOption}.`,
      );
    case "EACCES":
      return new StartError(
        `Port ${port} of ${host} needs rights that this user does not have; choose one above 1023 with ${portOption}.`,
      );
    case "EADDRNOTAVAIL":
      return new StartError(`This machine has no address ${host}; ${hostFix}.`);
    default:
      return new StartError(`The ${what} can't listen on ${host}:${port}: ${message}.`);
  }
}
