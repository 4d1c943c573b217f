import { expect, test } from "vitest";
import { withLogin } from "../../../scripts/aws/push-target.ts";

const HOST = "111122223333.dkr.ecr.us-east-1.amazonaws.com";

test("Docker's configuration gets the login, which no helper is asked for, and keeps those of other registries", () => {
  const config = withLogin(
    { auths: { "nvcr.io": {} }, credsStore: "desktop", credHelpers: { [HOST]: "ecr-login" } },
    { own: "/home/me/.docker", host: HOST, login: { user: "AWS", password: "token" } },
  );
  expect(config).toEqual({
    auths: { "nvcr.io": {}, [HOST]: { auth: Buffer.from("AWS:token").toString("base64") } },
    credHelpers: { "nvcr.io": "desktop" },
    cliPluginsExtraDirs: ["/home/me/.docker/cli-plugins"],
  });
});
