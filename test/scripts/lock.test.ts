import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, test } from "vitest";
import { lockName, lockStack, StackLockedError } from "../../scripts/stack/lock.ts";

const directory = `/test/${process.pid}/stack`;

describe("the lock of a stack", () => {
  test("is told to a second comer, and free after release", async () => {
    const lock = await lockStack("demo", directory, "up");
    const second = lockStack("demo", directory, "down");
    await expect(second).rejects.toThrow(StackLockedError);
    await expect(second).rejects.toThrow(`locked by process ${process.pid} (\`up\`, since `);
    lock.release();
    (await lockStack("demo", directory, "down")).release();
  });

  test("of another stack is another lock", async () => {
    const lock = await lockStack("demo", directory, "up");
    (await lockStack("demo", `${directory}-2`, "up")).release();
    lock.release();
  });

  test("dies with its holder, even by kill -9", async () => {
    const module = new URL("../../scripts/stack/lock.ts", import.meta.url).href;
    const script = `import { lockStack } from ${JSON.stringify(module)}; await lockStack("demo", ${JSON.stringify(directory)}, "up"); console.log("held"); setInterval(() => {}, 1000);`;
    const holder = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(holder.stdout, "data");
    await expect(lockStack("demo", directory, "up")).rejects.toThrow(`process ${holder.pid}`);
    holder.kill("SIGKILL");
    await once(holder, "close");
    (await lockStack("demo", directory, "up")).release();
  });

  test.each<NodeJS.Platform>(["darwin", "linux"])(
    "%s: one at a time, and a name that is left is taken over",
    async (platform) => {
      const name = lockName(`${directory}-${platform}`, platform);
      const script = `require("node:net").createServer().listen(${JSON.stringify(name)}, () => process.kill(process.pid, "SIGKILL"))`;
      await once(spawn(process.execPath, ["-e", script]), "close");
      const lock = await lockStack("demo", directory, "up", name);
      await expect(lockStack("demo", directory, "down", name)).rejects.toThrow(`process ${process.pid}`);
      lock.release();
    },
  );

  test("has a name of each system's own", () => {
    expect(lockName("/a", "linux")).toMatch(/^\0engine-room-[0-9a-f]{32}$/);
    expect(lockName("/a", "win32")).toMatch(/^\\\\\.\\pipe\\engine-room-[0-9a-f]{32}$/);
    expect(lockName("/a", "darwin")).toMatch(/^\/.*\/engine-room-[0-9a-f]{32}\.sock$/);
  });
});
