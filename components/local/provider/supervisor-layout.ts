/** Where the processes of a stack have their files. All of it goes with the last process. */
import { fromRoot } from "./files.ts";

/** Paths relative to the project's root, which is the working folder of supervisord and of every program. */
interface SupervisorLayout {
  /** supervisord's own folder, mode 0700: who can enter it controls the processes. */
  readonly supervisor: string;
  readonly configuration: string;
  readonly socket: string;
  readonly pidFile: string;
  readonly supervisorLog: string;
  readonly launcher: string;
  readonly programConfigurations: string;
  readonly records: string;
  readonly logs: string;
  readonly processes: string;
}

export function supervisorLayout(stackDirectory: string): SupervisorLayout {
  const supervisor = `${stackDirectory}/supervisor`;
  return {
    supervisor,
    configuration: `${supervisor}/supervisord.conf`,
    socket: `${supervisor}/supervisord.sock`,
    pidFile: `${supervisor}/supervisord.pid`,
    supervisorLog: `${supervisor}/supervisord.log`,
    launcher: `${supervisor}/launch.py`,
    programConfigurations: `${supervisor}/conf.d`,
    records: `${supervisor}/programs`,
    logs: `${stackDirectory}/logs`,
    processes: `${stackDirectory}/processes`,
  };
}

/** Log of a process, relative to the project's root. Rotated ones have `.1`, `.2`, … after it. */
export function logFile(stackDirectory: string, name: string): string {
  return `${supervisorLayout(stackDirectory).logs}/${name}.log`;
}

/** Absolute path of what the launcher reads. */
export function recordFile(stackDirectory: string, name: string): string {
  return fromRoot(supervisorLayout(stackDirectory).records, `${name}.json`);
}

/** Absolute path of a file with one byte for each start of the program since it was configured. */
export function launchesFile(stackDirectory: string, name: string): string {
  return fromRoot(supervisorLayout(stackDirectory).records, `${name}.launches`);
}
