/**
 * The part of the Kubernetes API that tests need, for objects of every kind that the server knows. Not by the official client:
 * since 2.0 it needs Node 22.19, and nearly all of it is one class a kind.
 */
import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import { text } from "node:stream/consumers";
import type { Connection } from "./cluster.ts";
import { type KubernetesObject, nameOf, type ObjectReference } from "./objects.ts";

const REQUEST_TIMEOUT_SECONDS = 60;
/** Owner of the applied fields. */
const FIELD_MANAGER = "engine-room-tests";

/** Filters for objects of a kind. */
interface Selection {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

interface Call {
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: object;
  readonly contentType?: string;
}

interface Answer<T> {
  readonly body: T;
  /** Warnings about accepted objects. */
  readonly warnings: readonly string[];
}

/** A kind as the server's discovery has it. */
interface Resource {
  /** Plural of the path. */
  readonly name: string;
  readonly kind: string;
  readonly namespaced: boolean;
}

/** The server's refusal, in its own words. */
export class ApiError extends Error {
  readonly status: number;
  /** `Invalid`, `Forbidden`, `NotFound`, … */
  readonly reason: string;

  constructor(status: number, reason: string, message: string) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.reason = reason;
  }
}

/** @throws ApiError, from every method, if the server refuses. */
export class ApiServer {
  readonly #connection: Connection;
  readonly #agent: Agent;
  readonly #resources = new Map<string, Promise<readonly Resource[]>>();

  constructor(connection: Connection) {
    this.#connection = connection;
    this.#agent = new Agent({ ca: connection.certificateAuthority, keepAlive: true });
  }

  /** Closes the connections. */
  close(): void {
    this.#agent.destroy();
  }

  /** Server-side apply; a field that the kind does not have is refused. */
  async apply(object: KubernetesObject): Promise<Answer<KubernetesObject>> {
    const path = `${await this.#collection(object)}/${object.metadata.name}`;
    return this.#call("PATCH", path, {
      query: { fieldManager: FIELD_MANAGER, fieldValidation: "Strict" },
      // JSON is YAML.
      contentType: "application/apply-patch+yaml",
      body: object,
    });
  }

  /** Creates an object with its status, which {@link apply} omits for most kinds. */
  async create(object: KubernetesObject): Promise<KubernetesObject> {
    const query = { fieldManager: FIELD_MANAGER, fieldValidation: "Strict" };
    return (
      await this.#call<KubernetesObject>("POST", await this.#collection(object), { query, body: object })
    ).body;
  }

  /** Undefined if it is not. */
  async get(reference: ObjectReference): Promise<KubernetesObject | undefined> {
    const path = `${await this.#collection(reference)}/${reference.metadata.name}`;
    return ignoreMissing(this.#call<KubernetesObject>("GET", path).then(({ body }) => body));
  }

  async list(apiVersion: string, kind: string, selection: Selection = {}): Promise<KubernetesObject[]> {
    const { namespace, ...query } = selection;
    const path = await this.#collection({ apiVersion, kind, metadata: { name: "", namespace } });
    const { body } = await this.#call<{ readonly items: KubernetesObject[] }>("GET", path, { query });
    // Objects in a list have no kind.
    return body.items.map((item) => ({ ...item, apiVersion, kind }));
  }

  /** Removes an object; the controllers remove its dependents. A missing object is not an error. */
  async remove(reference: ObjectReference): Promise<void> {
    const path = `${await this.#collection(reference)}/${reference.metadata.name}`;
    await ignoreMissing(this.#call("DELETE", path, { query: { propagationPolicy: "Background" } }));
  }

  /** Changes fields of an object, whichever manager owns them: a merge patch. */
  async patch(reference: ObjectReference, fields: object): Promise<void> {
    const path = `${await this.#collection(reference)}/${reference.metadata.name}`;
    const query = { fieldManager: FIELD_MANAGER, fieldValidation: "Strict" };
    await this.#call("PATCH", path, { query, contentType: "application/merge-patch+json", body: fields });
  }

  /** Scales as `kubectl scale` does: its user becomes the owner of the number, except of zero. */
  async scale(reference: ObjectReference, replicas: number): Promise<void> {
    const path = `${await this.#collection(reference)}/${reference.metadata.name}/scale`;
    const query = { fieldManager: FIELD_MANAGER };
    const body = { spec: { replicas } };
    await this.#call("PATCH", path, { query, contentType: "application/merge-patch+json", body });
  }

  /** Evicts a pod, as a drain of its node does. @throws ApiError with status 429 if a budget forbids it. */
  async evict(pod: ObjectReference): Promise<void> {
    const path = `${await this.#collection(pod)}/${pod.metadata.name}/eviction`;
    const { name, namespace } = pod.metadata;
    const body = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace } };
    await this.#call("POST", path, { body });
  }

  /** Whether objects of the kind can be created: a new definition takes a moment. */
  async knows(apiVersion: string, kind: string): Promise<boolean> {
    return (await this.#resource(apiVersion, kind)) !== undefined;
  }

  /** Path of the objects of a kind. @throws ApiError if the server has no such kind. */
  async #collection(reference: ObjectReference): Promise<string> {
    const { apiVersion, kind, metadata } = reference;
    const resource = await this.#resource(apiVersion, kind);
    if (resource === undefined)
      throw new ApiError(404, "NotFound", `The server has no ${kind} of ${apiVersion}.`);
    const { name, namespaced } = resource;
    const { namespace } = metadata;
    if (namespaced && namespace === undefined && metadata.name !== "")
      throw new Error(
        `${nameOf(reference)} has no namespace; name one, as a kubeconfig's default is not used.`,
      );
    const scope = namespaced && namespace !== undefined ? `/namespaces/${namespace}` : "";
    return `${groupPath(apiVersion)}${scope}/${name}`;
  }

  async #resource(apiVersion: string, kind: string): Promise<Resource | undefined> {
    const known = await this.#resources.get(apiVersion);
    const found = known?.find((resource) => resource.kind === kind);
    if (found !== undefined) return found;
    const asked = this.#discover(apiVersion);
    this.#resources.set(apiVersion, asked);
    return (await asked).find((resource) => resource.kind === kind);
  }

  async #discover(apiVersion: string): Promise<readonly Resource[]> {
    const answer = this.#call<{ readonly resources: readonly Resource[] }>("GET", groupPath(apiVersion));
    const body = await ignoreMissing(answer.then((got) => got.body));
    // Names with a slash are subresources, which have kinds of their own.
    return (body?.resources ?? []).filter(({ name }) => !name.includes("/"));
  }

  async #call<T>(method: string, path: string, call: Call = {}): Promise<Answer<T>> {
    const { query = {}, body, contentType = "application/json" } = call;
    const { server, token } = this.#connection;
    const content = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const sent = request(
        `${server}${path}?${new URLSearchParams(query)}`,
        {
          method,
          agent: this.#agent,
          headers: {
            authorization: `Bearer ${token}`,
            ...(content === undefined
              ? {}
              : { "content-type": contentType, "content-length": content.length }),
          },
          signal: AbortSignal.timeout(REQUEST_TIMEOUT_SECONDS * 1000),
        },
        resolve,
      );
      sent.on("error", reject);
      sent.end(content);
    });
    const answer = await text(response);
    const { statusCode = 0 } = response;
    if (statusCode >= 400) throw refusal(statusCode, answer);
    return { body: JSON.parse(answer) as T, warnings: warningsOf(response) };
  }
}

function groupPath(apiVersion: string): string {
  return apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
}

/** Answers are of the kind `Status`, except for paths that the server does not have. */
function refusal(statusCode: number, answer: string): ApiError {
  if (!answer.startsWith("{")) return new ApiError(statusCode, "", answer.trim());
  const { reason = "", message = "" } = JSON.parse(answer) as {
    readonly reason?: string;
    readonly message?: string;
  };
  return new ApiError(statusCode, reason, message);
}

/** `299 - "text"`, several of them with commas. */
function warningsOf({ headers }: IncomingMessage): string[] {
  const matches = `${headers.warning ?? ""}`.matchAll(/299 \S+ "((?:[^"\\]|\\.)*)"/g);
  return [...matches].map(([, quoted = ""]) => quoted.replaceAll(/\\(.)/g, "$1"));
}

async function ignoreMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}
