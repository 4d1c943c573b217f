import { createHash, randomBytes } from "node:crypto";
import { resourceName } from "../../infra/config/common.ts";
import { UsageError } from "../errors.ts";
import { defineCommand } from "./command.ts";

export const command = defineCommand({
  argument: { name: "[name]", text: "name of the key in the stack file (default: default)" },
  options: { "--json": "print JSON: {name, key, sha256}" },
  notes: ["Prints the key once, and the lines of the stack file that admit it."],
  takesNoStack: true,
  async run({ positionals: [name = "default"] }) {
    if (!resourceName("website").safeParse(name).success)
      throw new UsageError(
        `${JSON.stringify(name)} is not a valid key name: use lower-case letters, digits and hyphens.`,
      );
    // 256 random bits: a plain hash of them can't be searched, so only the hash is ever stored.
    const key = `er-${randomBytes(32).toString("base64url")}`;
    const sha256 = createHash("sha256").update(key).digest("hex");
    return {
      json: { name, key, sha256 },
      text: `${key}\n\nThe key is stored nowhere and not printed again. Clients send it as \`Authorization: Bearer …\`; the commands that ask the gateway read it from ENGINE_ROOM_API_KEY.\nAdd to the stack file:\n\n  engine-room:gateway:\n    apiKeys:\n      - name: ${name}\n        sha256: ${sha256}\n`,
    };
  },
});
