/** Why `npm ci` failed, out of what it prints: the same text for the same lock file, on every machine. */

/**
 * Codes of npm whose explanation is about the lock file alone. Those of the others name what is another one each time: the
 * request that failed first, an address, a folder.
 */
const ABOUT_THE_LOCK_FILE = [
  "E404",
  "EBADENGINE",
  "EBADPLATFORM",
  "EINTEGRITY",
  "EJSONPARSE",
  "ENOVERSIONS",
  "ETARGET",
  "EUSAGE",
];

/** `npm error`; `npm ERR!` up to npm 9. */
const ERROR_LINE = /^npm (?:error|ERR!)(?: (.*))?$/;

/** After this comes how `npm ci` is typed. */
const USAGE = /^(?:Clean install a project|Usage:)$/;

/** Before each line of some errors. */
const REPEATED_CODE = /^(?:404|notarget)(?: |$)/;

const LOG_FILE = /^A complete log of this run/;

const MOST_CHARACTERS = 300;

/**
 * One sentence.
 *
 * @param stderr - Of `npm ci`.
 * @param folder - In which it ran; its name is another one each time.
 */
export function npmFailure(stderr: string, folder: string): string {
  const lines = stderr.split("\n").flatMap((line) => ERROR_LINE.exec(line)?.slice(1) ?? []);
  const words = lines.map((line) => (line ?? "").trim());
  const usage = words.findIndex((line) => USAGE.test(line));
  const own = (usage === -1 ? words : words.slice(0, usage)).filter(
    (line) => line !== "" && !LOG_FILE.test(line),
  );
  const code = own.flatMap((line) => /^code (\S+)$/.exec(line)?.[1] ?? [])[0];
  if (code === undefined) return "it gave no code of an error.";
  if (!ABOUT_THE_LOCK_FILE.includes(code)) return `${code}; its own output says more.`;
  const said = own
    .filter((line) => !line.startsWith("code "))
    .map((line) => line.replace(REPEATED_CODE, ""))
    .filter((line) => line !== "")
    .join(" ")
    .replaceAll(folder, ".")
    .slice(0, MOST_CHARACTERS);
  return `${code}: ${said}`;
}
