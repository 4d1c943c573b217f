/** The official clients whose own tests are run, and the settings of their suites. */
import type { Source } from "./sources.ts";

export interface Suite {
  /** Name of the package, at the version of requirements.lock. */
  readonly client: string;
  readonly version: string;
  readonly source: Source;
  /** The folder of the source that holds the tests. */
  readonly folder: string;
  /** Files that test a single server: no replicas, users, encryption, names of other hosts. */
  readonly files: readonly string[];
  /** Beginnings of names of tests that are not run, by the reason. */
  readonly leftOut: Readonly<Record<string, readonly string[]>>;
  /** Options of pytest from the suite's own configuration. */
  readonly options: readonly string[];
  /** Variables with the address of the suite's server. */
  environment(port: number): Readonly<Record<string, string>>;
  /** The server's code and sentence in a failure; undefined when the failure is not the server's. */
  refusal(failure: string): string | undefined;
}

/** Codes of the table of refusals in the document database's README. */
const REFUSED_BY_MONGO = new Set(["2", "9", "20", "52", "59", "67", "73", "238", "40324", "40415"]);

export const PYMONGO: Suite = {
  client: "pymongo",
  version: "4.17.0",
  source: {
    url: "https://files.pythonhosted.org/packages/ca/64/50be6fbac9c79fe2e4c17401a467da2d8764d82833d83cec325afe5cab32/pymongo-4.17.0.tar.gz",
    sha256: "70ffa08ba641468cc068cf46c06b34f01a8ce3489f6411309fcb5ceabe6b2fc0",
  },
  folder: "test",
  files: [
    "bulk",
    "change_stream",
    "client_bulk_write",
    "collation",
    "collection",
    "collection_management",
    "command_logging",
    "command_monitoring",
    "comment",
    "common",
    "crud_unified",
    "cursor",
    "custom_types",
    "database",
    "dbref",
    "decimal128",
    "examples",
    "grid_file",
    "gridfs",
    "gridfs_bucket",
    "gridfs_spec",
    "index_management",
    "json_util_integration",
    "monitoring",
    "pooling",
    "raw_bson",
    "read_concern",
    "read_write_concern_spec",
    "run_command",
    "session",
    "sessions_unified",
    "threads",
    "transactions",
    "versioned_api_integration",
  ].map((name) => `test/test_${name}.py`),
  leftOut: {
    "the refusal is in another thread or of an unacknowledged write, and the test fails differently": [
      "test/test_cursor.py::TestCursor::test_to_list_csot_applied",
      "test/test_database.py::TestDatabaseAggregation::test_database_aggregation_fake_cursor",
      "test/test_gridfs.py::TestGridfs::test_threaded_writes",
      "test/test_gridfs_bucket.py::TestGridfs::test_threaded_writes",
      "test/test_pooling.py::TestPoolMaxSize::test_max_pool_size",
    ],
    "a wrong statement is refused by itself, where MongoDB refuses the whole command": [
      "test/test_command_logging.py::TestCommandLoggingOperationId::test_Failed_bulk_write_",
      ...["BulkWriteReplaceOneSort", "BulkWriteUpdateOneSort", "ReplaceOneSort", "UpdateOneSort"].map(
        (name) => `test/test_crud_unified.py::TestUnified${name}::`,
      ),
    ],
    "a hint does not order": ["test/test_cursor.py::TestCursor::test_hint"],
    "unrequested batches (exhaustAllowed), which are optional for the server": [
      "test/test_collection.py::TestCollection::test_exhaust",
      "test/test_cursor.py::TestRawBatchCommandCursor::test_exhaust_cursor_db_set",
    ],
    "hello has no number of a connection, which is optional for the server": [
      "test/test_command_logging.py::TestCommandLoggingServerConnectionId::",
      "test/test_command_monitoring.py::TestCommandMonitoringServerConnectionId::",
    ],
    "a sum of 64-bit integers is one of 32 bits if that holds it": [
      "test/test_custom_types.py::TestCollectionWCustomType::test_aggregate_w_custom_type_decoder",
    ],
    "the option `background` of an index, which does nothing since MongoDB 4.2, is not listed": [
      "test/test_collection.py::TestCollection::test_index_background",
    ],
  },
  options: ["-m", "default", "-o", "asyncio_default_fixture_loop_scope=session"],
  environment: (port) => ({ DB_IP: "127.0.0.1", DB_PORT: String(port) }),
  refusal(failure) {
    const error =
      /'code': (\d+), 'errmsg': ("[^"]*"|'[^']*')|'errmsg': ("[^"]*"|'[^']*'), 'code': (\d+)/.exec(
        failure.replaceAll("\\'", "'"),
      );
    const code = error?.[1] ?? error?.[4] ?? "";
    const sentence = (error?.[2] ?? error?.[3] ?? "").slice(1, -1);
    return REFUSED_BY_MONGO.has(code) ? `${code}: ${sentence}` : undefined;
  },
};

export const QDRANT_CLIENT: Suite = {
  client: "qdrant-client",
  version: "1.17.1",
  // The source package has only tests of its local mode. The commit is that of the tag v1.17.1.
  source: {
    repository: "https://github.com/qdrant/qdrant-client",
    commit: "cd5eb259dd7a8448fd4ebea209f742a6eb16b4a3",
  },
  folder: "tests",
  files: ["congruence_tests", "test_qdrant_client.py", "test_async_qdrant_client.py", "test_migrate.py"].map(
    (name) => `tests/${name}`,
  ),
  leftOut: {
    "the address with Qdrant's own ports": ["tests/test_qdrant_client.py::test_client_init"],
    "the server's own name": ["tests/congruence_tests/test_info.py::"],
    time: ["tests/test_qdrant_client.py::test_timeout_propagation"],
    "gRPC, which the service has not": [
      "tests/test_qdrant_client.py::test_async_auth_token_provider",
      "tests/test_qdrant_client.py::test_client_close",
      "tests/test_qdrant_client.py::test_grpc_options",
    ],
  },
  options: ["-o", "asyncio_mode=auto"],
  environment: () => ({}),
  refusal(failure) {
    const answer = /Unexpected Response: (4\d\d) [\s\S]*?\{"status":\{"error":"(.*?)"\},"time"/.exec(
      failure.replaceAll("\\", ""),
    );
    return answer === null ? undefined : `${answer[1]}: ${answer[2]}`;
  },
};

export const OPENAI: Suite = {
  client: "openai",
  version: "3.52.0",
  source: {
    url: "https://files.pythonhosted.org/packages/bb/d9/2ef76a717f5cd5d42857ae3424db2f16bf5f01070edfd63ea9347e7d041f/openai-3.52.0.tar.gz",
    sha256: "258a4fec3e40b412c58672526ed33f20738c2e4ea27601792e73843af62466af",
  },
  folder: "tests",
  files: [
    "chat",
    "test_batches.py",
    "test_completions.py",
    "test_embeddings.py",
    "test_files.py",
    "test_images.py",
    "test_models.py",
    "test_moderations.py",
    "test_responses.py",
    "responses",
    "test_uploads.py",
    "uploads",
    "test_vector_stores.py",
    "vector_stores",
    "audio",
    "fine_tuning",
    "test_evals.py",
  ].map((name) => `tests/api_resources/${name}`),
  leftOut: {
    "the client asks for base64 by itself, and its strict check takes nothing but lists": [
      "method",
      "raw_response",
      "streaming_response",
    ].map((kind) => `tests/api_resources/test_embeddings.py::TestEmbeddings::test_${kind}_create[strict]`),
    "the test itself answers": [
      "tests/api_resources/audio/test_speech.py::",
      ...["method", "raw_response", "streaming_response"].map(
        (kind) => `tests/api_resources/test_files.py::TestFiles::test_${kind}_content`,
      ),
    ],
  },
  // The asynchronous client repeats the same tests; requests without a path parameter are refused by the client.
  options: ["-k", "not Async and not path_params"],
  environment: (port) => ({ TEST_API_BASE_URL: `http://127.0.0.1:${port}/v1` }),
  refusal(failure) {
    const answer = /Error code: (4\d\d) - (.*)$/m.exec(failure);
    return answer === null ? undefined : `${answer[1]}: ${answer[2]}`;
  },
};
