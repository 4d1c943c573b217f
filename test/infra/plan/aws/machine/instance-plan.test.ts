import { describe, expect, test } from "vitest";
import type { InstancePlan, InstanceTaskPlan } from "../../../../../infra/plan/aws/types.ts";
import { ec2Values, fullValues, instanceOf, secretValues, unitNamed, unitsOf } from "./stacks.ts";

const small = instanceOf(ec2Values);
const full = instanceOf(fullValues);
const withSecrets = instanceOf(secretValues);
const instances = [small, full, withSecrets];

function taskNamed({ tasks }: InstancePlan, name: string): InstanceTaskPlan {
  const task = tasks.find((one) => one.name === name);
  if (task === undefined) throw new Error(`No task ${name}: ${tasks.map((one) => one.name).join(", ")}`);
  return task;
}

/** Names of the documents of a stack. */
const documents = ({ tasks }: InstancePlan) => tasks.map(({ document }) => document.name);

describe("the machine", () => {
  test("is of the pool's type, in the network's first zone, with AWS's own image", () => {
    expect(small).toMatchObject({
      instanceType: "g5.xlarge",
      zone: "a",
      amiParameter:
        "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id",
      rootDiskGiB: 150,
      databaseDisk: { sizeGiB: 20, deviceName: "/dev/sdf" },
      isSpot: false,
      capacityReservationId: null,
      isProtected: false,
    });
  });

  test("has a root disk that holds its image, however small the stack file wants it", () => {
    const sizes = [20, 74, 76].map(
      (diskGiB) =>
        instanceOf({ ...ec2Values, pools: [{ name: "gpu", instanceType: "p4d.24xlarge", diskGiB }] })
          .rootDiskGiB,
    );
    expect(sizes).toEqual([75, 75, 76]);
  });

  test("reaches 443, mount targets, and what the stack file has elsewhere", () => {
    const databases = (vector: string, mongo: object = {}) =>
      instanceOf({
        ...ec2Values,
        databases: "external",
        externalDatabases: { mongo: { uri: { secure: "v1:def" }, ...mongo }, vector: { url: vector } },
      }).egressPorts;
    expect(small.egressPorts).toEqual({ https: 443, nfs: 2049 });
    expect(databases("http://10.0.0.5:6333")).toEqual({ https: 443, nfs: 2049, mongo: 27017, vector: 6333 });
    expect(databases("https://qdrant.example.org", { port: 10255 })).toEqual({
      https: 443,
      nfs: 2049,
      mongo: 10255,
    });
    const images = { registry: "registry.example.org:5000/models" };
    expect(instanceOf({ ...ec2Values, images }).egressPorts).toEqual({
      https: 443,
      nfs: 2049,
      registry: 5000,
    });
  });

  test("is as the stack file wants it to be paid for, and kept", () => {
    const pool = { name: "gpu", instanceType: "g5.xlarge" };
    const spot = { ...pool, capacity: "spot", hourlyUsd: 0.5 };
    expect(instanceOf({ ...ec2Values, pools: [spot] }).isSpot).toBe(true);
    const reserved = { ...pool, capacityReservationId: "cr-0123456789abcdef0" };
    expect(instanceOf({ ...ec2Values, pools: [reserved] }).capacityReservationId).toBe(
      "cr-0123456789abcdef0",
    );
    expect(instanceOf({ ...ec2Values, retain: ["demo"] }).isProtected).toBe(true);
    expect(instanceOf({ ...ec2Values, pools: [{ ...pool, zone: "b" }] }).zone).toBe("b");
  });

  test.each(instances)("starts with less than 16 KiB of user data (%#)", ({ userData }) => {
    expect(Buffer.byteLength(userData)).toBeLessThan(16_384);
  });

  test("counts its GPUs, and mounts the store with its role over TLS", () => {
    expect(full.userData).toContain('"$(nvidia-smi --list-gpus | wc -l)" -eq 8');
    expect(small.userData).toMatch(/efs \S*,tls,iam,accesspoint=\$\{accessPointId\} 0 0/);
  });
});

describe("tasks", () => {
  test("come one after the other: setup, builds, services", () => {
    const names = small.tasks.map(({ name }) => name);
    expect(names.map((name) => name.replace(/-[0-9a-f]{12}$/, ""))).toEqual([
      "setup",
      "build-gpt2-medium",
      "build-encoders",
      "services",
    ]);
    expect(small.tasks.map(({ after }) => after)).toEqual([[], ...names.slice(0, -1).map((name) => [name])]);
  });

  test.each(instances)("fit Systems Manager, and have no parameter but that of secrets (%#)", (instance) => {
    for (const { document, script, timeoutSeconds, waitSeconds } of instance.tasks) {
      expect(Buffer.byteLength(document.content)).toBeLessThan(65_536);
      expect(document.name).toMatch(/^[a-zA-Z0-9_.-]{3,128}$/);
      expect(script).not.toMatch(/\{\{/);
      // The agent gives up after two hours.
      expect(timeoutSeconds).toBeLessThan(7200);
      expect(waitSeconds).toBeGreaterThan(timeoutSeconds);
      const { mainSteps } = JSON.parse(document.content);
      expect(mainSteps).toHaveLength(1);
      expect(mainSteps[0].inputs.runCommand.join("\n")).toBe(script);
    }
  });

  test("of many models are spread over documents, each unit in one", () => {
    expect(full.tasks.map(({ name }) => name)).toContain("files-1");
    const names = unitsOf(full).map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names).toEqual(
      expect.arrayContaining(["engine-room-gateway.service", "engine-room-mllama.service"]),
    );
  });

  test("a build that may take longer is waited for by several", () => {
    const instance = instanceOf(ec2Values, (stack) => ({
      ...stack,
      containers: stack.containers.map((one) =>
        one.role === "engineBuild" ? { ...one, timeoutSeconds: 15_000 } : one,
      ),
    }));
    const parts = instance.tasks.filter(({ name }) => name.startsWith("build-gpt2-medium"));
    expect(parts.map(({ units }) => units.length)).toEqual([1, 0, 0]);
    expect(parts.map(({ script }) => script.includes("systemctl start --no-block"))).toEqual([
      true,
      true,
      true,
    ]);
    expect(parts.map(({ script }) => /^systemctl start --no-block/m.test(script))).toEqual([
      true,
      false,
      false,
    ]);
    expect(parts.map(({ script }) => script.endsWith('give_up "did not end in the time it has"'))).toEqual([
      false,
      false,
      true,
    ]);
  });

  test("a build takes away the server whose GPU it needs, and no other", () => {
    const stops = (instance: InstancePlan, build: RegExp) =>
      instance.tasks
        .find(({ name }) => build.test(name))
        ?.script.match(/^systemctl stop \S+/gm)
        ?.slice(0, -1);
    expect(stops(small, /^build-gpt2/)).toEqual(["systemctl stop engine-room-gpt2-medium.service"]);
    // Of eight GPUs five serve.
    expect(stops(full, /^build-llava-1.5/)).toEqual([]);
  });

  test("another image is another document of setup and services, and of the builds that run it", () => {
    const other = instanceOf(ec2Values, (stack) => ({
      ...stack,
      images: stack.images.map((image) =>
        image.name === "services" && image.kind === "locked"
          ? { ...image, reference: image.reference.replace(/0{64}$/, "1".repeat(64)) }
          : image,
      ),
    }));
    const same = documents(small).map((name, index) => name === documents(other)[index]);
    expect(same).toEqual([false, true, true, false]);
  });

  test("services run again after any build that does", () => {
    const other = instanceOf(ec2Values, (stack) => ({
      ...stack,
      containers: stack.containers.map((one) =>
        one.role === "encoderBuild" ? { ...one, timeoutSeconds: 9 } : one,
      ),
    }));
    expect(documents(small).map((name, index) => name === documents(other)[index])).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  test("a document that can't be made smaller is refused with the numbers", () => {
    const huge = () =>
      instanceOf(ec2Values, (stack) => ({
        ...stack,
        containers: stack.containers.map((one) =>
          one.role === "gateway" ? { ...one, files: { "/etc/a.json": "x".repeat(60_000) } } : one,
        ),
      }));
    expect(huge).toThrow(/Systems Manager takes 60000/);
  });

  test("the last one ends when the gateway answers where clients reach it", () => {
    expect(taskNamed(small, "services").script).toContain("http://127.0.0.1:8080/healthz");
    expect(taskNamed(small, "services").script.match(/health=healthy/g)).toHaveLength(5);
  });
});

describe("units", () => {
  test("a server requires its build and what the setup brings; a gateway wants its databases", () => {
    const [build] = small.tasks
      .filter(({ name }) => name.startsWith("build-gpt2"))
      .flatMap(({ units }) => units);
    const server = unitNamed(small, "engine-room-gpt2-medium.service").text;
    expect(server).toMatch(new RegExp(`^Requires=.*engine-room\\.images\\.service.* ${build?.name}$`, "m"));
    expect(server).toMatch(new RegExp(`^After=.*${build?.name}`, "m"));
    expect(server).toContain("RequiresMountsFor=/srv/engine-room/store\n");
    const gateway = unitNamed(small, "engine-room-gateway.service").text;
    expect(gateway).toContain("Wants=engine-room-mongo.service engine-room-vector.service\n");
  });

  test("a service comes back, a task runs once; both have the time to stop that they need", () => {
    const server = unitNamed(small, "engine-room-gpt2-medium.service").text;
    expect(server).toMatch(/^Restart=always$/m);
    expect(server).toMatch(/^StartLimitBurst=5$/m);
    expect(server).toMatch(/^TimeoutStopSec=75$/m);
    expect(server).toMatch(/^ExecStop=\/usr\/bin\/docker \\\n {2}stop \\\n {2}-t \\\n {2}60 /m);
    const build = unitsOf(small).find(({ role }) => role === "engineBuild")?.text;
    expect(build).toMatch(/^Type=oneshot\nRemainAfterExit=yes$/m);
    expect(build).toMatch(/^TimeoutStartSec=2140$/m);
    expect(build).not.toMatch(/^(Restart|WantedBy)=/m);
  });

  test("containers have their files read-only from the machine", () => {
    const { text, files } = unitNamed(small, "engine-room-gateway.service");
    const [path] = Object.keys(files);
    expect(path).toBe("/etc/engine-room/gateway/etc/engine-room/gateway.json");
    expect(files[path ?? ""]?.mode).toBe("0444");
    expect(text).toContain(`--volume=${path}:/etc/engine-room/gateway.json:ro`);
  });

  test("several GPUs are one field to Docker", () => {
    const instance = instanceOf(fullValues, (stack) => ({
      ...stack,
      containers: stack.containers.map((one) => (one.model === "llava" ? { ...one, gpus: [1, 2] } : one)),
    }));
    expect(unitNamed(instance, "engine-room-llava.service").text).toContain('"--gpus=\\"device=1,2\\""');
  });
});

describe("secrets", () => {
  test("are made by the stack, or are there; containers that read them wait for them", () => {
    expect(withSecrets.stackSecrets).toEqual(["hubToken", "mongoUri", "vectorApiKey"]);
    expect(full.secrets).toEqual([
      {
        name: "hubToken",
        secretName: null,
        arn: "arn:aws:secretsmanager:eu-west-1:111122223333:secret:hub-AbCdEf",
        file: "/run/engine-room/secrets/hub-token",
      },
    ]);
    expect(unitNamed(withSecrets, "engine-room-gateway.service").text).toMatch(
      /^Requires=.*engine-room\.secrets/m,
    );
    expect(unitNamed(withSecrets, "engine-room-gpt2-medium.service").text).not.toContain(
      "engine-room.secrets",
    );
    expect(small.secrets).toEqual([]);
    expect(unitsOf(small).map(({ name }) => name)).not.toContain("engine-room.secrets.service");
  });

  test("are nowhere but in files in memory", () => {
    const program = Object.values(unitNamed(full, "engine-room.secrets.service").files)[0]?.text ?? "";
    expect(program).toContain(
      "retry fetch /run/engine-room/secrets/hub-token arn:aws:secretsmanager:eu-west-1",
    );
    expect(program).toMatch(/ eu-west-1$/m);
    for (const secret of ["v1:abc", "v1:def", "v1:ghi"])
      expect(JSON.stringify(withSecrets)).not.toContain(secret);
  });

  test("another value runs again what reads it", () => {
    const readers = withSecrets.tasks.filter(({ readsSecrets }) => readsSecrets).map(({ name }) => name);
    expect(readers).toEqual(["setup", "services"]);
  });
});

describe("the role", () => {
  const actionsOf = ({ role }: InstancePlan) => role.statements.flatMap(({ actions }) => actions);

  test("names each action, and what it may be done to", () => {
    for (const { actions, resources } of full.role.statements) {
      for (const action of actions) expect(action).toMatch(/^[a-z0-9]+:[A-Za-z0-9]+$/);
      if (!resources.includes("*")) for (const resource of resources) expect(resource).toMatch(/^arn:aws:/);
    }
    expect(full.role.managedPolicies).toEqual([]);
  });

  test("pulls the stack's images, reads its secrets, and mounts its store", () => {
    const resources = (sid: string) => withSecrets.role.statements.find((one) => one.sid === sid)?.resources;
    expect(resources("PullImages")).toEqual(
      ["encoders", "services", "trtllm"].map(
        (name) => `arn:aws:ecr:us-east-1:111122223333:repository/engine-room-demo/${name}`,
      ),
    );
    expect(resources("ReadSecrets")).toEqual(withSecrets.secrets.map(({ arn }) => arn));
    expect(resources("MountEngineStore")?.[0]).toMatch(/:file-system\/\$\{fileSystemId\}$/);
    expect(actionsOf(small)).not.toContain("secretsmanager:GetSecretValue");
  });
});
