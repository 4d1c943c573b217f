/** Errors as MongoDB numbers them: https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml */

const CODE_NAMES = {
  1: "InternalError",
  2: "BadValue",
  9: "FailedToParse",
  14: "TypeMismatch",
  20: "IllegalOperation",
  22: "InvalidBSON",
  26: "NamespaceNotFound",
  27: "IndexNotFound",
  28: "PathNotViable",
  40: "ConflictingUpdateOperators",
  43: "CursorNotFound",
  48: "NamespaceExists",
  50: "MaxTimeMSExpired",
  52: "DollarPrefixedFieldName",
  53: "InvalidIdField",
  59: "CommandNotFound",
  66: "ImmutableField",
  67: "CannotCreateIndex",
  72: "InvalidOptions",
  73: "InvalidNamespace",
  85: "IndexOptionsConflict",
  86: "IndexKeySpecsConflict",
  171: "CannotIndexParallelArrays",
  238: "NotImplemented",
  292: "QueryExceededMemoryLimitNoDiskUseAllowed",
  352: "UnsupportedOpQueryCommand",
  10334: "BSONObjectTooLarge",
  11000: "DuplicateKey",
  12051: "CursorInUse",
  40324: "Location40324",
  40415: "Location40415",
} as const;

type ErrorCode = keyof typeof CODE_NAMES;

/** A command that failed; the client sees code, name and message. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly code: ErrorCode;
  /** Further fields of the reply, such as keyPattern. */
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, message: string, details: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.code = code;
    this.details = details;
  }

  get codeName(): string {
    return CODE_NAMES[this.code];
  }
}
