/** A self-signed certificate for a test server, made on the spot: Node signs, and X.509 (RFC 5280) is a little DER. */
import { generateKeyPairSync, sign } from "node:crypto";

export interface Certificate {
  /** PEM. */
  readonly key: string;
  /** PEM. */
  readonly cert: string;
}

// Docker's registry supports it, and no Ed25519.
const ECDSA_WITH_SHA256 = der(0x30, oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02));

/** Valid from 2020 to 2049 for exactly one DNS name. */
export function certificateFor(hostname: string): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const name = der(0x30, der(0x31, der(0x30, oid(0x55, 0x04, 0x03), der(0x0c, Buffer.from(hostname)))));
  const validity = der(
    0x30,
    der(0x17, Buffer.from("200101000000Z")),
    der(0x17, Buffer.from("491231235959Z")),
  );
  const alternativeNames = der(0x30, der(0x82, Buffer.from(hostname)));
  const extensions = der(0xa3, der(0x30, der(0x30, oid(0x55, 0x1d, 0x11), der(0x04, alternativeNames))));
  const toBeSigned = der(
    0x30,
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.from([1])),
    ECDSA_WITH_SHA256,
    name,
    validity,
    name,
    publicKey.export({ format: "der", type: "spki" }),
    extensions,
  );
  const signature = Buffer.concat([Buffer.from([0]), sign("sha256", toBeSigned, privateKey)]);
  const certificate = der(0x30, toBeSigned, ECDSA_WITH_SHA256, der(0x03, signature));
  return {
    key: privateKey.export({ format: "pem", type: "pkcs8" }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${certificate.toString("base64")}\n-----END CERTIFICATE-----\n`,
  };
}

function oid(...bytes: number[]): Buffer {
  return der(0x06, Buffer.from(bytes));
}

/** Tag, length and content; lengths up to 65535. */
function der(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(contents);
  const { length } = content;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}
