/** Databases that a stack runs itself. */
import { type Container, type ContainerCheck, container } from "./container.ts";

/** Listened on in the containers. */
export const DATABASE_PORTS = { mongo: 27_017, mongoMetrics: 9216, vector: 6333 } as const;

/** A large volume is looked through before the port is open. */
const START_SECONDS = 120;

/** Acknowledged data are on disk; the end only has to be in order. */
const STOP_SECONDS = 30;

/** MongoDB takes half of the machine's memory by default, which the models need. */
const MONGO_CACHE_GB = 1;

const QDRANT_IS_READY = [
  `exec 3<>/dev/tcp/127.0.0.1/${DATABASE_PORTS.vector}`,
  "printf 'GET /readyz HTTP/1.0\\r\\n\\r\\n' >&3",
  "read -r answer <&3",
  '[[ "$answer" == *" 200 "* ]]',
].join(" && ");

type DatabaseServer = Pick<Container, "image" | "ports"> &
  Partial<Container> & {
    readonly dataPath: string;
    readonly check: ContainerCheck;
  };

/** `mock`: servers of this project. `container`: MongoDB and Qdrant. */
const SERVERS: Readonly<Record<"mock" | "container", Record<"mongo" | "vector", DatabaseServer>>> = {
  mock: {
    mongo: mock("mock-mongo", DATABASE_PORTS.mongoMetrics, {
      mongo: DATABASE_PORTS.mongo,
      metrics: DATABASE_PORTS.mongoMetrics,
    }),
    vector: mock("mock-vector", DATABASE_PORTS.vector, { http: DATABASE_PORTS.vector }),
  },
  container: {
    mongo: {
      image: "mongo",
      arguments: ["mongod", "--bind_ip_all", "--wiredTigerCacheSizeGB", String(MONGO_CACHE_GB)],
      dataPath: "/data/db",
      ports: { mongo: DATABASE_PORTS.mongo },
      // The image starts as root, and gives its data to this user; Docker gives a new volume the folder's owner.
      user: "mongodb",
      // https://github.com/docker-library/mongo/blob/master/8.0/Dockerfile
      userId: 999,
      check: {
        kind: "exec",
        command: ["mongosh", "--quiet", "--eval", "quit(db.adminCommand({ ping: 1 }).ok === 1 ? 0 : 1)"],
      },
    },
    vector: {
      image: "qdrant",
      // By default both are written beside the program, and a root that can't be written ends it
      // (https://github.com/qdrant/qdrant/blob/master/src/startup.rs).
      environment: {
        QDRANT_INIT_FILE_PATH: "/qdrant/storage/.qdrant-initialized",
        QDRANT__STORAGE__SNAPSHOTS_PATH: "/qdrant/storage/snapshots",
        QDRANT__TELEMETRY_DISABLED: "true",
      },
      dataPath: "/qdrant/storage",
      ports: { http: DATABASE_PORTS.vector },
      // The image has no client of HTTP, but bash.
      check: { kind: "exec", command: ["bash", "-c", QDRANT_IS_READY] },
    },
  },
};

/** A mock has its health on a port that it serves anyway. */
function mock(program: string, healthPort: number, ports: Container["ports"]): DatabaseServer {
  return {
    image: "services",
    arguments: [program, "--data", "/data", "--host", "0.0.0.0"],
    dataPath: "/data",
    ports,
    check: { kind: "exec", command: nodeCheck(`http://127.0.0.1:${healthPort}/healthz`) },
  };
}

/** MongoDB, then the vector database, or the mocks of both. */
export function databaseContainers(kind: "mock" | "container"): readonly Container[] {
  return (["mongo", "vector"] as const).map((role) => {
    const { dataPath, check, ...server } = SERVERS[kind][role];
    return container({
      ...server,
      role,
      name: role,
      mounts: [{ purpose: "data", path: dataPath, readOnly: false }],
      readiness: check,
      startSeconds: START_SECONDS,
      stopSeconds: STOP_SECONDS,
      readOnlyRoot: true,
    });
  });
}

/** Exit code 0 if an address of the container answers well; every image with Node.js has fetch. */
export function nodeCheck(url: string): readonly string[] {
  const program = `fetch("${url}").then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))`;
  return ["node", "-e", program];
}
