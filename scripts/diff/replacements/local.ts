/** Processes of this machine: `diff` of the handlers in `components/local/provider/`, which a test compares with these. */
import type { ReplacementRow } from "./types.ts";

export const localRows: Readonly<Record<string, ReplacementRow>> = {
  "local:index:Process": {
    replaces: ["name", "stackDirectory"],
    updates: [
      "command",
      "environment",
      "files",
      "priority",
      "python",
      "ready",
      "requestedPorts",
      "stopTimeoutSeconds",
      "triggers",
    ],
    deletesFirst: () => true,
  },
  "local:index:PythonEnvironment": {
    replaces: ["directory"],
    updates: ["pythonVersion", "requirements", "requirementsSha256"],
    deletesFirst: () => false,
  },
  "local:index:ModelRepository": {
    replaces: ["directory"],
    updates: ["artifacts", "digest", "files"],
    ignores: ["python"],
    deletesFirst: () => false,
  },
};
