/** The databases that a stack runs itself, whatever starts their containers. */
import type { ImageName } from "./docker/types.ts";

/** Listened on in the containers, whatever they are published on. */
export const DATABASE_PORTS = { mongo: 27_017, mongoMetrics: 9216, vector: 6333 } as const;

/** A large volume is looked through before the port is open. */
export const DATABASE_START_SECONDS = 120;

/** Data that were acknowledged are on disk; the end only has to be in order. */
export const DATABASE_STOP_SECONDS = 30;

export interface DatabaseServer {
  readonly image: ImageName;
  /** Arguments of the image's entry point. */
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** Folder of its data. */
  readonly dataPath: string;
  /** Whom Docker has to name because the image starts as root; null: the image's own user. */
  readonly user: string | null;
  /** Number of the user that it runs as, and that its data belong to. */
  readonly userId: number;
  /** Program with arguments, without a shell: exit code 0 while it answers. */
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
      // The image has no client of HTTP, but bash.
      check: ["bash", "-c", QDRANT_IS_READY],
    },
  },
};

/** A mock has its health on a port that it serves anyway. */
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

/** Exit code 0 where an address of the container answers well; every image with Node.js has fetch. */
export function nodeCheck(url: string): readonly string[] {
  const program = `fetch("${url}").then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))`;
  return ["node", "-e", program];
}
