/** What travels with a client's request to every server behind the gateway. */
export interface CallContext {
  /** Sent on as `x-request-id` over HTTP and as `comment` to MongoDB, so that one id finds a request in every log. */
  readonly requestId: string;
  /** Ends the call; its reason is what the caller gets. */
  readonly signal: AbortSignal;
}
