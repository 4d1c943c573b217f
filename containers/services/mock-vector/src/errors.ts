/** A request that can't be answered; the client sees the status and the sentence, in Qdrant's own form. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  readonly status: 400 | 404 | 409 | 503;

  constructor(status: RequestError["status"], message: string) {
    super(message);
    this.status = status;
  }
}
