/**
 * Frames of a video, picked evenly as tools/multimodal/client.py of tensorrtllm_backend picks them. ffmpeg decodes them on the user's
 * machine: servers receive frames, so that a foreign file never meets their codecs.
 */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { UserError } from "../errors.ts";

/** An hour of 4K takes a few minutes to decode up to its last frame. */
const TIMEOUT_SECONDS = 300;

/** Models look at 384 × 384 pixels or fewer of a frame. */
const LONGEST_SIDE_PIXELS = 768;

/** ffmpeg's names of accepted formats: a playlist would name other files, or addresses. */
const FORMATS = "mov,matroska,avi,mpeg,mpegts,flv,asf,ogg,gif";

/**
 * Numbers of `count` frames of `total`, from 0 on, evenly; all frames if `total` is smaller. Exactly the floating-point numbers of
 * numpy.arange(0, total, total / count), which may have one number more.
 */
export function evenFrames(total: number, count: number): readonly number[] {
  const step = total / count;
  return [...new Set(Array.from({ length: count }, (_, index) => Math.floor(index * step)))];
}

/**
 * @param path - Absolute.
 * @returns The frames as `data:video/jpeg;base64,FRAME,FRAME,…`.
 * @throws UserError if there is no ffmpeg, or the file can't be decoded.
 */
export async function framesOfVideo(path: string, count: number): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "engine-room-frames-"));
  try {
    const numbers = evenFrames(await frameTotal(path), count);
    const chosen = numbers.map((number) => `eq(n\\,${number})`).join("+");
    const side = LONGEST_SIDE_PIXELS;
    const filters = [
      `select=${chosen}`,
      `scale=min(iw\\,${side}):min(ih\\,${side}):force_original_aspect_ratio=decrease`,
      // At one frame a second none is repeated or dropped to keep the video's own rate.
      "setpts=N/TB",
    ];
    const files = ["-r", "1", "-frames:v", String(numbers.length), "-q:v", "2", join(folder, "%d.jpg")];
    await ffmpeg(path, ["-vf", filters.join(","), ...files]);
    const frames = await Promise.all(
      numbers.map((_, index) => readFile(join(folder, `${index + 1}.jpg`), "base64").catch(() => "")),
    );
    const missing = frames.indexOf("");
    if (missing >= 0) throw damaged(path, `frame ${numbers[missing]} of ${numbers.at(-1)} can't be decoded`);
    return `data:video/jpeg;base64,${frames.join(",")}`;
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Counts frames without decoding, a line a frame: headers may be missing or wrong. */
async function frameTotal(path: string): Promise<number> {
  const lines = await ffmpeg(path, ["-c", "copy", "-f", "framecrc", "-"]);
  const total = lines.match(/^\d/gm)?.length ?? 0;
  if (total === 0) throw damaged(path, "it has no frames");
  return total;
}

async function ffmpeg(path: string, output: readonly string[]): Promise<string> {
  const input = ["-nostdin", "-v", "error", "-xerror", "-format_whitelist", FORMATS, "-i", `file:${path}`];
  try {
    const options = { timeout: TIMEOUT_SECONDS * 1000, killSignal: "SIGKILL", maxBuffer: 2 ** 28 } as const;
    return (await promisify(execFile)("ffmpeg", [...input, "-map", "0:v:0", ...output], options)).stdout;
  } catch (error) {
    const {
      code,
      killed,
      stderr = "",
    } = error as NodeJS.ErrnoException & { killed?: boolean; stderr?: string };
    if (code === "ENOENT")
      throw new UserError(
        "--video picks frames by ffmpeg, which is not on PATH; install it (apt-get install ffmpeg, brew install ffmpeg).",
      );
    if (killed === true) throw damaged(path, `ffmpeg did not end within ${TIMEOUT_SECONDS} s`);
    // Without the speaker: `[mov @ 0x55…]`.
    throw damaged(path, stderr.split("\n")[0]?.replace(/^(\[[^\]]*\] )+|\.$/g, "") || "ffmpeg failed");
  }
}

function damaged(path: string, reason: string): UserError {
  return new UserError(
    `${basename(path)} can't be read as a video: ${reason}; give an MP4, WebM, MOV, MKV or AVI file that plays.`,
  );
}
