/**
 * GitHub's REST API, as far as the workflows need it, and what jobs keep there: one comment of a pull request, or one open issue.
 * https://docs.github.com/rest
 */
import { z } from "zod";
import { errorWords, UserError } from "../errors.ts";

const REQUEST_TIMEOUT_MILLISECONDS = 30_000;
const DOWNLOAD_TIMEOUT_MILLISECONDS = 120_000;
const PAGE_SIZE = 100;
/** More than any list of this program; also ends a server that always has another page. */
const MAX_PAGES = 50;
const ERROR_CHARACTERS = 300;

export class GitHubError extends UserError {
  override readonly name = "GitHubError";
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

/** One repository, with the rights of one token. Answers are checked: only keys of a schema are read. */
export class GitHub {
  /** `owner/name` */
  readonly repository: string;
  readonly #url: string;
  readonly #token: string;

  /** @param options - `apiUrl`: `https://api.github.com`. */
  constructor(options: { readonly apiUrl: string; readonly token: string; readonly repository: string }) {
    this.repository = options.repository;
    this.#url = `${options.apiUrl.replace(/\/$/, "")}/repos/${options.repository}`;
    this.#token = options.token;
  }

  /** @param path - Below the repository: `/issues/1/comments`. */
  async get<T>(path: string, schema: z.ZodType<T>): Promise<T> {
    return checked(path, schema, await (await this.#request("GET", path)).json());
  }

  /** Undefined if the answer is 404. */
  async find<T>(path: string, schema: z.ZodType<T>): Promise<T | undefined> {
    return this.get(path, schema).catch((error: unknown) => {
      if (error instanceof GitHubError && error.status === 404) return undefined;
      throw error;
    });
  }

  async send(method: "POST" | "PATCH" | "PUT", path: string, body: object): Promise<unknown> {
    return (await this.#request(method, path, body)).json();
  }

  /**
   * All pages of a list.
   *
   * @param path - With or without a query.
   * @param key - Key of the list in each answer; absent: the answer is the list.
   */
  async list<T>(path: string, schema: z.ZodType<T>, key?: string): Promise<T[]> {
    const items: T[] = [];
    const list = z.array(schema);
    const pageSchema =
      key === undefined ? list : z.object({ [key]: list }).transform((answer) => answer[key] ?? []);
    const separator = path.includes("?") ? "&" : "?";
    for (let page = 1; page <= MAX_PAGES; page += 1) {
      const ofPage = `${path}${separator}per_page=${PAGE_SIZE}&page=${page}`;
      const answer = await this.get(ofPage, pageSchema);
      items.push(...answer);
      if (answer.length < PAGE_SIZE) return items;
    }
    throw new UserError(`${path} of ${this.repository} has more than ${MAX_PAGES * PAGE_SIZE} entries.`);
  }

  /**
   * Follows the redirect to where GitHub keeps the file; that host gets no token.
   *
   * @throws UserError once more than `maxBytes` have come.
   */
  async download(path: string, maxBytes: number): Promise<Buffer> {
    const response = await this.#request("GET", path, undefined, DOWNLOAD_TIMEOUT_MILLISECONDS);
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of response.body ?? []) {
      bytes += chunk.byteLength;
      if (bytes > maxBytes)
        throw new UserError(`${path} is larger than ${maxBytes} bytes, the most that is read.`);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  }

  async #request(
    method: "GET" | "POST" | "PATCH" | "PUT",
    path: string,
    body?: object,
    timeoutMilliseconds = REQUEST_TIMEOUT_MILLISECONDS,
  ): Promise<Response> {
    const response = await fetch(`${this.#url}${path}`, {
      method,
      headers: {
        accept: "application/vnd.github+json",
        authorization: `Bearer ${this.#token}`,
        "x-github-api-version": "2022-11-28",
        "user-agent": "engine-room",
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(timeoutMilliseconds),
    }).catch((error: unknown) => {
      throw new UserError(`GitHub does not answer ${method} ${path}: ${errorWords(error)}.`);
    });
    if (response.ok) return response;
    const words = (await response.text()).slice(0, ERROR_CHARACTERS);
    throw new GitHubError(
      `GitHub answers ${response.status} to ${method} ${path}: ${words}`,
      response.status,
    );
  }
}

function checked<T>(path: string, schema: z.ZodType<T>, answer: unknown): T {
  const result = schema.safeParse(answer);
  if (result.success) return result.data;
  throw new UserError(
    `GitHub's answer to ${path} differs from GitHub's documentation: ${z.prettifyError(result.error)}`,
  );
}

const environmentSchema = z.object({
  GITHUB_API_URL: z.url(),
  GITHUB_TOKEN: z.string().min(1),
  GITHUB_REPOSITORY: z.string().regex(/^[A-Za-z0-9_.-]+\/[A-Za-z0-9_.-]+$/),
});

/** Reads the environment of a job. @throws UserError with the names of missing variables. */
export function githubFromEnvironment(environment: NodeJS.ProcessEnv = process.env): GitHub {
  const result = environmentSchema.safeParse(environment);
  if (!result.success)
    throw new UserError(
      `This runs in a job of GitHub Actions; of its environment ${result.error.issues.map(({ path }) => path.join(".")).join(", ")} is missing or wrong.`,
    );
  const { GITHUB_API_URL: apiUrl, GITHUB_TOKEN: token, GITHUB_REPOSITORY: repository } = result.data;
  return new GitHub({ apiUrl, token, repository });
}

/** GitHub refuses longer texts; in UTF-16 code units, which are never fewer than its characters. */
export const MAX_COMMENT_CHARACTERS = 65_536;

/** Longer than any report that a person reads to its end. */
const MAX_ISSUE_CHARACTERS = 60_000;

/** Author of comments by a job's own token. Anyone else could begin a comment with a marker. */
const AUTHOR = "github-actions[bot]";

const commentSchema = z.object({
  id: z.number().int(),
  body: z.string().nullish(),
  user: z.object({ login: z.string() }).nullish(),
});
const issueSchema = z.object({
  number: z.number().int(),
  title: z.string(),
  body: z.string().nullish(),
  pull_request: z.unknown().optional(),
  user: z.object({ login: z.string() }).nullish(),
});

interface Comment {
  /** Marker in the first line, which Markdown does not show: a later run finds the comment by it. */
  readonly subject: "preview" | "preview-stack";
  readonly text: string;
}

/**
 * @param issue - Number of an issue or pull request.
 * @returns Sentence for the log.
 * @throws UserError if the text is too long.
 */
export async function upsertComment(
  github: GitHub,
  issue: number,
  { subject, text }: Comment,
): Promise<"created" | "updated" | "unchanged"> {
  const marker = `<!-- engine-room: ${subject} -->\n`;
  const body = `${marker}${text}`;
  if (body.length > MAX_COMMENT_CHARACTERS)
    throw new UserError(
      `A comment has at most ${MAX_COMMENT_CHARACTERS} characters, and this one ${body.length}.`,
    );
  const comments = await github.list(`/issues/${issue}/comments`, commentSchema);
  const own = comments.find((found) => found.user?.login === AUTHOR && found.body?.startsWith(marker));
  if (own?.body === body) return "unchanged";
  if (own === undefined) await github.send("POST", `/issues/${issue}/comments`, { body });
  else await github.send("PATCH", `/issues/comments/${own.id}`, { body });
  return own === undefined ? "created" : "updated";
}

interface KeptIssue {
  /** Marker by which a later run finds the issue, with its title. */
  readonly label: string;
  readonly title: string;
  /** Whether jobs open no other issue with the label: it is found whatever title an earlier version gave it. @default false */
  readonly isOnlyOne?: boolean;
  /** Markdown; null without anything to report. */
  readonly report: string | null;
}

/** Opens, updates or closes one issue about one thing. @returns Sentence for the log. */
export async function keepIssue(
  github: GitHub,
  { label, title, isOnlyOne = false, report }: KeptIssue,
): Promise<"opened" | "updated" | "unchanged" | "closed" | "nothing to do"> {
  const open = await github.list(`/issues?state=open&labels=${label}`, issueSchema);
  const isOwn = (issue: (typeof open)[number]) =>
    issue.title === title || (isOnlyOne && issue.user?.login === AUTHOR);
  const own = open.find((issue) => isOwn(issue) && issue.pull_request === undefined);
  if (report === null) {
    if (own === undefined) return "nothing to do";
    await github.send("PATCH", `/issues/${own.number}`, { state: "closed", state_reason: "completed" });
    return "closed";
  }
  const body = report.length <= MAX_ISSUE_CHARACTERS ? report : `${wholeLines(report)}\n… (cut)\n`;
  if (own?.body === body) return "unchanged";
  if (own === undefined) await github.send("POST", "/issues", { title, body, labels: [label] });
  else await github.send("PATCH", `/issues/${own.number}`, { body });
  return own === undefined ? "opened" : "updated";
}

/** A line that is cut may have the beginning of code, whose content would be read as Markdown. */
function wholeLines(report: string): string {
  return report.slice(0, Math.max(0, report.lastIndexOf("\n", MAX_ISSUE_CHARACTERS)));
}
