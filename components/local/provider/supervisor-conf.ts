/**
 * supervisord's configuration as text. Command and environment of a program are not in it: its format has no way to
 * write a line break or " ;" in a value and expands `%`. A launcher reads them from a JSON record instead, so what is
 * left here are names and numbers that need no quoting.
 */
import type { ProcessInputs } from "../types.ts";
import { logFile, supervisorLayout } from "./supervisor-layout.ts";

// Within this time after a start a death counts as a failed start, which is tried again after 1, 2, 3, … seconds.
const START_SECONDS = 10;
const START_RETRIES = 8;

/** The part for supervisord itself; paths are relative to the project's root. */
export function renderSupervisor(stackDirectory: string): string {
  const layout = supervisorLayout(stackDirectory);
  return `[supervisord]
logfile=${layout.supervisorLog}
logfile_maxbytes=1MB
logfile_backups=1
pidfile=${layout.pidFile}
childlogdir=${layout.supervisor}
nocleanup=true
umask=077

[unix_http_server]
file=${layout.socket}
chmod=0700

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
`;
}

/** One program's section. */
export function renderProgram(
  inputs: Pick<
    ProcessInputs,
    "stackDirectory" | "name" | "python" | "priority" | "stopTimeoutSeconds" | "maxLogMiB" | "logBackups"
  >,
): string {
  const layout = supervisorLayout(inputs.stackDirectory);
  return `[program:${inputs.name}]
command=${inputs.python} -I ${layout.launcher} ${layout.records}/${inputs.name}.json
autostart=true
autorestart=true
startsecs=${START_SECONDS}
startretries=${START_RETRIES}
priority=${inputs.priority}
stopsignal=TERM
stopwaitsecs=${inputs.stopTimeoutSeconds}
stopasgroup=true
killasgroup=true
redirect_stderr=true
stdout_logfile=${logFile(inputs.stackDirectory, inputs.name)}
stdout_logfile_maxbytes=${inputs.maxLogMiB}MB
stdout_logfile_backups=${inputs.logBackups}
`;
}
