/** Containers of the databases that a stack runs itself; the same on Docker and Kubernetes. */
import type { ImageName } from "./docker/types.ts";

/** Inside the containers. */
export const DATABASE_PORTS = { mongo: 27_017, mongoMetrics: 9216, vector: 6333 } as const;

/** A large volume is checked before the port opens. */
export const DATABASE_START_SECONDS = 120;

/** Acknowledged data are on disk already. */
export const DATABASE_STOP_SECONDS = 30;

export interface DatabaseServer {
  readonly image: ImageName;
  /** Arguments of the image's entry point. */
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** Folder of its data. */
  readonly dataPath: string;
  /** User that Docker must set, since the image starts as root; null: the image's own user. */
  readonly user: string | null;
  /** User number of the process, which owns the data. */
  readonly userId: number;
  /** Health check: program with arguments, without a shell; exit code 0 while the database answers. */
  readonly check: readonly string[];
}

/** MongoDB takes half of the machine's memory by default, which the models need. */
const MONGO_CACHE_GB = 1;

const QDRANT_IS_READY = [
  `exec 3<>/dev/tcp/127.0.0.1/${DATABASE_PORTS.vector}`,
  "printf 'GET /readyz HTTP/1.0\\r\\n\\r\\n' >&3",
  "read -r answer <&3",
  '[[ "$answer" == *" 200 "* ]]',
].join(" && ");

/** Each kind of each database. */
export const DATABASE_SERVERS: Readonly<
  Record<"mock" | "container", Readonly<Record<"mongo" | "vector", DatabaseServer>>>
> = {
  mock: {
    mongo: mock("mock-mongo", DATABASE_PORTS.mongoMetrics),
    vector: mock("mock-vector", DATABASE_PORTS.vector),
  },
  container: {
    mongo: {
      image: "mongo",
      command: ["mongod", "--bind_ip_all", "--wiredTigerCacheSizeGB", String(MONGO_CACHE_GB)],
      environment: {},
      dataPath: "/data/db",
      // The image starts as root, and gives its data to this user; Docker gives a new volume the folder's owner.
      user: "mongodb",
      // https://github.com/docker-library/mongo/blob/master/8.0/Dockerfile
      userId: 999,
      check: ["mongosh", "--quiet", "--eval", "quit(db.adminCommand({ ping: 1 }).ok === 1 ? 0 : 1)"],
    },
    vector: {
      image: "qdrant",
      command: [],
      // By default both are written beside the program, and a root that can't be written ends it
      // (https://github.com/qdrant/qdrant/blob/master/src/startup.rs).
      environment: {
        QDRANT_INIT_FILE_PATH: "/qdrant/storage/.qdrant-initialized",
        QDRANT__STORAGE__SNAPSHOTS_PATH: "/qdrant/storage/snapshots",
        QDRANT__TELEMETRY_DISABLED: "true",
      },
      dataPath: "/qdrant/storage",
      user: null,
      userId: 1000,
      // The image has bash, and no HTTP client.
      check: ["bash", "-c", QDRANT_IS_READY],
    },
  },
};

/** Mocks answer `/healthz` on a port that they serve anyway. */
function mock(program: string, healthPort: number): DatabaseServer {
  return {
    image: "services",
    command: [program, "--data", "/data", "--host", "0.0.0.0"],
    environment: {},
    dataPath: "/data",
    user: null,
    userId: 1000,
    check: nodeCheck(`http://127.0.0.1:${healthPort}/healthz`),
  };
}

/** Health check of an HTTP address inside an image with Node.js. */
export function nodeCheck(url: string): readonly string[] {
  const program = `fetch("${url}").then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))`;
  return ["node", "-e", program];
}
