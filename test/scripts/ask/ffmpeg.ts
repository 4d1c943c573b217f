import { execFileSync } from "node:child_process";
import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { lockedPython } from "../../../scripts/testing/python.ts";

/** Puts the ffmpeg of imageio-ffmpeg, as PyPI has it, into a new folder. */
export async function installFfmpeg(folder: string): Promise<void> {
  const python = await lockedPython([join(import.meta.dirname, "requirements.lock")], () => undefined);
  const find = "import imageio_ffmpeg; print(imageio_ffmpeg.get_ffmpeg_exe(), end='')";
  mkdirSync(folder);
  symlinkSync(execFileSync(python, ["-c", find], { encoding: "utf8" }), join(folder, "ffmpeg"));
}
