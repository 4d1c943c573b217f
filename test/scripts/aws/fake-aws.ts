/**
 * An AWS endpoint for operations that moto 5.2.5 lacks (add-ons and versions of EKS, quotas of EC2, sessions of Systems
 * Manager: see `script-operations.ts`), and for responses that moto can't give: missing permissions and capacity, issued
 * certificates, versions near their end, the nodes of no cluster, full subnets. It has the parts of the services' protocols
 * that the SDK reads, over HTTP, and records requests. https://smithy.io/2.0/aws/protocols/index.html
 */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { vi } from "vitest";

/** Response of a service: a document of its protocol, or an error by its code. */
export type FakeAnswer =
  | { readonly json: unknown }
  | { readonly xml: string }
  | { readonly error: string; readonly status?: number };

/** `service:Operation`, as IAM names actions. */
export type FakeService = (action: string, input: FakeInput) => FakeAnswer;

export interface FakeInput {
  /** Parameters of the query protocol, and of a URL. */
  readonly parameters: URLSearchParams;
  /** Body of a JSON protocol. */
  readonly body: Readonly<Record<string, unknown>>;
  /** Path of a REST protocol. */
  readonly path: string;
  readonly method: string;
}

export interface FakeAws {
  readonly url: string;
  /** Actions of requests, in order. */
  readonly asked: readonly string[];
  close(): Promise<void>;
}

/** IAM's name of a service, by the different name in a signature. */
const SIGNED_NAMES: Readonly<Record<string, string>> = { tagging: "tag" };

/** Operations of REST protocols, by method and path. */
const REST: readonly (readonly [RegExp, string])[] = [
  [/^GET \/clusters\/[^/]+$/, "DescribeCluster"],
  [/^POST \/clusters\/[^/]+\/update-config$/, "UpdateClusterConfig"],
  [/^GET \/clusters\/[^/]+\/addons$/, "ListAddons"],
  [/^GET \/clusters\/[^/]+\/node-groups$/, "ListNodegroups"],
  [/^GET \/clusters\/[^/]+\/node-groups\/[^/]+$/, "DescribeNodegroup"],
  [/^POST \/clusters\/[^/]+\/node-groups\/[^/]+\/update-config$/, "UpdateNodegroupConfig"],
  [/^GET \/clusters\/[^/]+\/updates\/[^/]+$/, "DescribeUpdate"],
];

export async function startFakeAws(service: FakeService): Promise<FakeAws> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    void answer(request, response, service, asked);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  service: FakeService,
  asked: string[],
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString("utf8");
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://fake");
  const isQuery = request.headers["content-type"]?.startsWith("application/x-www-form-urlencoded") === true;
  const parameters = isQuery ? new URLSearchParams(text) : searchParams;
  const signed =
    /Credential=[^/]+\/\d+\/[^/]+\/([^/]+)\//.exec(request.headers.authorization ?? "")?.[1] ?? "";
  const target = String(request.headers["x-amz-target"] ?? "");
  const method = request.method ?? "";
  const operation =
    target.split(".").at(-1) ||
    parameters.get("Action") ||
    (REST.find(([pattern]) => pattern.test(`${method} ${pathname}`))?.[1] ?? `${method} ${pathname}`);
  const action = `${SIGNED_NAMES[signed] ?? signed}:${operation}`;
  asked.push(action);
  const body = !isQuery && text !== "" ? (JSON.parse(text) as Record<string, unknown>) : {};
  const said = service(action, { parameters, body, path: pathname, method });
  if ("error" in said) {
    response.statusCode = said.status ?? 400;
    if (isQuery) response.end(xmlError(signed, said.error));
    else {
      response.setHeader("x-amzn-errortype", said.error);
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ __type: said.error, message: `It says ${said.error}.` }));
    }
  } else if ("xml" in said) {
    response.setHeader("content-type", "text/xml");
    response.end(said.xml);
  } else {
    response.setHeader("content-type", "application/x-amz-json-1.1");
    response.end(JSON.stringify(said.json));
  }
}

/** Error in XML; EC2 has its own form. */
function xmlError(service: string, code: string): string {
  const error = `<Error><Code>${code}</Code><Message>It says ${code}.</Message></Error>`;
  return service === "ec2"
    ? `<Response><Errors>${error}</Errors><RequestID>1</RequestID></Response>`
    : `<ErrorResponse>${error}<RequestId>1</RequestId></ErrorResponse>`;
}

/** Answer of a query protocol, from nested objects; lists are elements `item`, or `member` of services other than EC2. */
export function xmlAnswer(
  operation: string,
  content: unknown,
  element: "item" | "member" = "item",
): FakeAnswer {
  const inner = xmlOf(content, element);
  return {
    xml:
      element === "item"
        ? `<${operation}Response>${inner}</${operation}Response>`
        : `<${operation}Response><${operation}Result>${inner}</${operation}Result></${operation}Response>`,
  };
}

function xmlOf(value: unknown, element: string): string {
  if (Array.isArray(value))
    return value.map((one) => `<${element}>${xmlOf(one, element)}</${element}>`).join("");
  if (typeof value !== "object" || value === null) return String(value);
  return Object.entries(value)
    .map(([key, inner]) => `<${key}>${xmlOf(inner, element)}</${key}>`)
    .join("");
}

/** Sets AWS's example credentials until `vi.unstubAllEnvs()`. */
export function stubCredentials(): void {
  vi.stubEnv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
}
