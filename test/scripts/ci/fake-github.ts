/** A GitHub on loopback: issues, comments, pull requests, artifacts, files and branches of one repository. */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { GitHub } from "../../../scripts/ci/github.ts";

const REPOSITORY = "room/engine-room";
const TOKEN = "token-of-a-job";
const BOT = "github-actions[bot]";

interface FakeComment {
  readonly id: number;
  body: string;
  readonly user: { readonly login: string };
}

interface FakeIssue {
  readonly number: number;
  title: string;
  body: string;
  state: string;
  readonly labels: readonly string[];
  readonly user?: { readonly login: string };
}

export interface FakePull {
  readonly number: number;
  readonly state: string;
  readonly labels: readonly { readonly name: string }[];
  readonly head: {
    readonly label: string;
    readonly sha: string;
    readonly repo: { readonly id: number } | null;
  };
  readonly base: { readonly ref: string; readonly repo: { readonly id: number } };
}

export interface FakeArtifact {
  readonly id: number;
  readonly name: string;
  readonly expired: boolean;
  readonly zip: Buffer;
  /** Size that GitHub reports; by default that of the zip. */
  readonly size_in_bytes?: number;
}

interface Call {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
}

/** Response of a route: a body, and a status if it is not 200. */
type Answer = { readonly status?: number; readonly body: unknown; readonly location?: string };

export class FakeGitHub {
  readonly comments = new Map<number, FakeComment[]>();
  readonly issues: FakeIssue[] = [];
  pulls: FakePull[] = [];
  artifacts: FakeArtifact[] = [];
  readonly files = new Map<string, Buffer>([["main:images.lock.json", Buffer.from("old")]]);
  /** Commits of the branch main. */
  readonly mainCommits = new Set<string>();
  readonly branches = new Map<string, string>([["main", "a".repeat(40)]]);
  /** Requests that change something, in order. */
  readonly changes: Call[] = [];
  /** Headers of the requests for files, which another host than the API's delivers. */
  readonly fileHeaders: IncomingMessage["headers"][] = [];
  /** Status of every answer from now on. */
  outage: number | undefined;
  /** Whether GitHub no longer has the files of artifacts. */
  filesAreGone = false;
  #lastId = 100;
  readonly #server: Server;
  readonly #fileServer: Server;

  private constructor(server: Server, fileServer: Server) {
    this.#server = server;
    this.#fileServer = fileServer;
  }

  static async start(): Promise<FakeGitHub> {
    const server = createServer();
    const files = createServer();
    const fake = new FakeGitHub(server, files);
    server.on("request", async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const text = Buffer.concat(chunks).toString("utf8");
      const answer = fake.#answer(request, text === "" ? undefined : JSON.parse(text));
      const headers = {
        "content-type": "application/json",
        ...(answer.location && { location: answer.location }),
      };
      response.writeHead(answer.status ?? 200, headers).end(JSON.stringify(answer.body));
    });
    files.on("request", (request, response) => {
      fake.fileHeaders.push(request.headers);
      const id = Number(request.url?.slice(1));
      response.end(fake.artifacts.find((artifact) => artifact.id === id)?.zip);
    });
    for (const one of [server, files])
      await new Promise<void>((resolve) => one.listen(0, "127.0.0.1", resolve));
    return fake;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get environment(): NodeJS.ProcessEnv {
    return { GITHUB_API_URL: this.url, GITHUB_TOKEN: TOKEN, GITHUB_REPOSITORY: REPOSITORY };
  }

  client(token: string = TOKEN): GitHub {
    return new GitHub({ apiUrl: this.url, token, repository: REPOSITORY });
  }

  /** Adds a comment. */
  say(issue: number, body: string, login: string = BOT): void {
    this.#lastId += 1;
    this.comments.set(issue, [
      ...(this.comments.get(issue) ?? []),
      { id: this.#lastId, body, user: { login } },
    ]);
  }

  async stop(): Promise<void> {
    for (const server of [this.#server, this.#fileServer]) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }

  #answer(request: IncomingMessage, body: unknown): Answer {
    if (this.outage !== undefined) return { status: this.outage, body: { message: "out of order" } };
    if (request.headers.authorization !== `Bearer ${TOKEN}`)
      return { status: 401, body: { message: "Bad credentials" } };
    const { pathname, searchParams } = new URL(request.url ?? "", this.url);
    const path = pathname.replace(`/repos/${REPOSITORY}`, "");
    const method = request.method ?? "";
    if (method !== "GET") this.changes.push({ method, path, body });
    for (const [route, answer] of this.#routes(
      searchParams,
      (body ?? {}) as Readonly<Record<string, never>>,
    )) {
      const match = new RegExp(`^${route}$`).exec(`${method} ${path}`);
      if (match !== null) return answer(match[1] ?? "");
    }
    return missing;
  }

  #routes(query: URLSearchParams, body: Readonly<Record<string, never>>): [string, (id: string) => Answer][] {
    const page = <T>(items: readonly T[]) => {
      const size = Number(query.get("per_page"));
      const first = (Number(query.get("page")) - 1) * size;
      return { body: items.slice(first, first + size) };
    };
    return [
      ["GET ", () => ({ body: { default_branch: "main" } })],
      ["GET /issues/(\\d+)/comments", (id) => page(this.comments.get(Number(id)) ?? [])],
      ["POST /issues/(\\d+)/comments", (id) => this.#comment(Number(id), body.body ?? "")],
      ["PATCH /issues/comments/(\\d+)", (id) => this.#edit(Number(id), body.body ?? "")],
      ["GET /issues", () => page(this.issues.filter((issue) => this.#isAsked(issue, query)))],
      ["POST /issues", () => this.#open(body)],
      ["PATCH /issues/(\\d+)", (id) => this.#change(Number(id), body)],
      [
        "GET /pulls",
        () =>
          page(
            this.pulls.filter(
              ({ state, head }) => state === query.get("state") && head.label === query.get("head"),
            ),
          ),
      ],
      ["GET /pulls/(\\d+)", (id) => found(this.pulls.find(({ number }) => number === Number(id)))],
      ["POST /pulls", () => ({ status: 201, body: { number: 77, ...(body as object) } })],
      [
        "GET /actions/runs/\\d+/artifacts",
        () => ({ body: { artifacts: page(this.artifacts.map(listed)).body } }),
      ],
      ["GET /actions/artifacts/(\\d+)/zip", (id) => this.#zip(id)],
      ["GET /contents/(.+)", (file) => this.#file(`${query.get("ref")}:${file}`)],
      ["PUT /contents/(.+)", () => ({ body: {} })],
      ["GET /compare/(.+)\\.\\.\\.main", (commit) => this.#compare(commit)],
      ["GET /git/ref/heads/(.+)", (name) => this.#branch(name)],
      ["POST /git/refs", () => ({ status: 201, body: {} })],
      ["PATCH /git/refs/heads/(.+)", () => ({ body: {} })],
    ];
  }

  #zip(id: string): Answer {
    return this.filesAreGone
      ? { status: 410, body: { message: "Artifact has expired" } }
      : { status: 302, body: {}, location: this.#fileUrl(id) };
  }

  #fileUrl(id: string): string {
    // Another name of the same machine: a request to another host must not have the token.
    return `http://localhost:${(this.#fileServer.address() as AddressInfo).port}/${id}`;
  }

  #comment(issue: number, body: string): Answer {
    this.say(issue, body);
    return { status: 201, body: this.comments.get(issue)?.at(-1) };
  }

  #edit(id: number, body: string): Answer {
    const comment = [...this.comments.values()].flat().find((one) => one.id === id);
    if (comment !== undefined) comment.body = body;
    return found(comment);
  }

  #isAsked({ state, labels }: FakeIssue, query: URLSearchParams): boolean {
    return state === query.get("state") && labels.includes(query.get("labels") ?? "");
  }

  #open({ title = "", body = "", labels = [] }: Partial<FakeIssue>): Answer {
    const issue = { number: this.issues.length + 1, title, body, labels, state: "open" };
    this.issues.push(issue);
    return { status: 201, body: issue };
  }

  #change(number: number, change: Partial<FakeIssue>): Answer {
    const issue = this.issues.find((one) => one.number === number);
    if (issue !== undefined) Object.assign(issue, change);
    return found(issue);
  }

  #file(key: string): Answer {
    const content = this.files.get(key);
    return found(content && { sha: "b".repeat(40), content: content.toString("base64") });
  }

  #compare(commit: string): Answer {
    if (!/^[0-9a-f]{40}$/.test(commit)) return missing;
    return { body: { status: this.mainCommits.has(commit) ? "ahead" : "diverged", commits: [] } };
  }

  #branch(name: string): Answer {
    const sha = this.branches.get(name);
    return found(sha && { object: { sha } });
  }
}

const missing: Answer = { status: 404, body: { message: "Not Found" } };

function found(body: unknown): Answer {
  return body === undefined || body === "" ? missing : { body };
}

function listed({ zip, ...artifact }: FakeArtifact): object {
  return { size_in_bytes: zip.length, ...artifact };
}
