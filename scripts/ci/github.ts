/** GitHub's REST API, as far as the workflows need it: https://docs.github.com/rest */
import { z } from "zod";
import { errorWords, UserError } from "../errors.ts";

const REQUEST_TIMEOUT_MILLISECONDS = 30_000;
const DOWNLOAD_TIMEOUT_MILLISECONDS = 120_000;
const PAGE_SIZE = 100;
/** More than any list that is asked for here; a server that always has another page ends too. */
const MAX_PAGES = 50;
const ERROR_CHARACTERS = 300;

type Method = "GET" | "POST" | "PATCH" | "PUT" | "DELETE";

interface GitHubOptions {
  /** `https://api.github.com` */
  readonly apiUrl: string;
  readonly token: string;
  /** `owner/name` */
  readonly repository: string;
}

/** An answer that is no success. */
export class GitHubError extends UserError {
  override readonly name = "GitHubError";
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

/** One repository, with the rights of one token. Answers are checked: what a schema does not know of, nobody reads. */
export class GitHub {
  readonly repository: string;
  readonly #apiUrl: string;
  readonly #token: string;

  constructor({ apiUrl, token, repository }: GitHubOptions) {
    this.repository = repository;
    this.#apiUrl = apiUrl.replace(/\/$/, "");
    this.#token = token;
  }

  /** @param path - Below the repository: `/issues/1/comments`. */
  async get<T>(path: string, schema: z.ZodType<T>): Promise<T> {
    return checked(path, schema, await (await this.#request("GET", path)).json());
  }

  /** Undefined where the answer is 404. */
  async find<T>(path: string, schema: z.ZodType<T>): Promise<T | undefined> {
    try {
      return await this.get(path, schema);
    } catch (error) {
      if (error instanceof GitHubError && error.status === 404) return undefined;
      throw error;
    }
  }

  async send<T>(
    method: "POST" | "PATCH" | "PUT",
    path: string,
    body: object,
    schema: z.ZodType<T>,
  ): Promise<T> {
    return checked(path, schema, await (await this.#request(method, path, body)).json());
  }

  /** All pages of a list. @param path - With or without a query. */
  async list<T>(path: string, schema: z.ZodType<T>): Promise<T[]> {
    const items: T[] = [];
    for (let page = 1; page <= MAX_PAGES; page += 1) {
      const separator = path.includes("?") ? "&" : "?";
      const answer = await this.get(
        `${path}${separator}per_page=${PAGE_SIZE}&page=${page}`,
        z.array(z.unknown()),
      );
      items.push(...answer.map((item) => checked(path, schema, item)));
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
    method: Method,
    path: string,
    body?: object,
    timeoutMilliseconds = REQUEST_TIMEOUT_MILLISECONDS,
  ): Promise<Response> {
    let response: Response;
    try {
      response = await fetch(`${this.#apiUrl}/repos/${this.repository}${path}`, {
        method,
        headers: {
          accept: "application/vnd.github+json",
          authorization: `Bearer ${this.#token}`,
          "x-github-api-version": "2022-11-28",
          "user-agent": "engine-room",
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(timeoutMilliseconds),
      });
    } catch (error) {
      throw new UserError(`GitHub does not answer ${method} ${path}: ${errorWords(error)}.`);
    }
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
    `GitHub's answer to ${path} is not what it documents: ${z.prettifyError(result.error)}`,
  );
}

const environmentSchema = z.object({
  GITHUB_API_URL: z.url(),
  GITHUB_TOKEN: z.string().min(1),
  GITHUB_REPOSITORY: z.string().regex(/^[A-Za-z0-9_.-]+\/[A-Za-z0-9_.-]+$/),
});

/** With what a job has in its environment. @throws UserError with the names of what is missing. */
export function githubFromEnvironment(environment: NodeJS.ProcessEnv = process.env): GitHub {
  const result = environmentSchema.safeParse(environment);
  if (!result.success)
    throw new UserError(
      `This runs in a job of GitHub Actions; of its environment ${result.error.issues.map(({ path }) => path.join(".")).join(", ")} is missing or wrong.`,
    );
  const { GITHUB_API_URL: apiUrl, GITHUB_TOKEN: token, GITHUB_REPOSITORY: repository } = result.data;
  return new GitHub({ apiUrl, token, repository });
}
