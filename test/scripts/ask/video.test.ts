import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { evenFrames, framesOfVideo } from "../../../scripts/ask/video.ts";
import { installFfmpeg } from "./ffmpeg.ts";

const folder = mkdtempSync(join(tmpdir(), "engine-room-video-"));
const programs = join(folder, "programs");

const ffmpeg = (...argv: readonly string[]) =>
  execFileSync(join(programs, "ffmpeg"), ["-v", "error", "-y", ...argv], { maxBuffer: 2 ** 28 });

/** 100 frames whose pictures differ; `source` is ffmpeg's filter. */
function video(name: string, source: string, ...codec: readonly string[]): string {
  const path = join(folder, name);
  ffmpeg("-f", "lavfi", "-i", source, ...codec, path);
  return path;
}

beforeAll(async () => {
  await installFfmpeg(programs);
}, 300_000);

beforeEach(() => {
  vi.stubEnv("PATH", `${programs}${delimiter}${process.env.PATH}`);
});

afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

test.each([
  // Numbers from numpy.arange(0, total, total / count).astype(int).
  [250, 8, [0, 31, 62, 93, 125, 156, 187, 218]],
  [8, 8, [0, 1, 2, 3, 4, 5, 6, 7]],
  [5, 8, [0, 1, 2, 3, 4]],
  [100, 3, [0, 33, 66]],
  [1, 16, [0]],
])("of %i frames %i are picked evenly", (total, count, numbers) => {
  expect(evenFrames(total, count)).toEqual(numbers);
});

const SMALL = "testsrc2=size=320x240:rate=10:duration=10";

test.each([
  // The file has B-frames in another order than they are shown.
  [
    "an MP4 with B-frames",
    "b.mp4",
    SMALL,
    ["-c:v", "libx264", "-bf", "3", "-pix_fmt", "yuv420p"],
    [320, 240],
  ],
  [
    "a WebM, whose header has no number of frames",
    "a.webm",
    SMALL,
    ["-c:v", "libvpx", "-deadline", "realtime"],
    [320, 240],
  ],
  [
    "a large upright video, made smaller",
    "tall.mp4",
    "testsrc2=size=720x1280:rate=10:duration=10",
    ["-c:v", "libx264", "-preset", "ultrafast"],
    [432, 768],
  ],
] as const)("the frames of %s are ffmpeg's own", async (_what, name, source, codec, [width, height]) => {
  const path = video(name, source, ...codec);
  const raw = ["-vf", `scale=${width}:${height}`, "-pix_fmt", "rgb24", "-f", "rawvideo", "-"];
  const all = ffmpeg("-i", path, ...raw);
  const size = width * height * 3;
  expect(all.length).toBe(100 * size);
  const url = await framesOfVideo(path, 8);
  expect(url.startsWith("data:video/jpeg;base64,")).toBe(true);
  const frames = url.slice(url.indexOf(",") + 1).split(",");
  const nearest = frames.map((frame, index) => {
    const file = join(folder, `${index}.jpg`);
    writeFileSync(file, Buffer.from(frame, "base64"));
    const picked = ffmpeg("-i", file, ...raw.slice(2));
    expect(picked.length).toBe(size);
    const distances = Array.from({ length: 100 }, (_, number) => {
      let sum = 0;
      // Every 31st byte of the frame: all colours, all places.
      for (let at = 0; at < size; at += 31)
        sum += Math.abs((picked[at] ?? 0) - (all[number * size + at] ?? 0));
      return sum / (size / 31);
    });
    const least = Math.min(...distances);
    expect(least).toBeLessThan(4);
    return distances.indexOf(least);
  });
  expect(nearest).toEqual(evenFrames(100, 8));
});

test("a file that is cut or damaged, a picture, or has only sound is refused with a sentence", async () => {
  const whole = readFileSync(video("whole.mp4", SMALL, "-c:v", "libx264"));
  const middle = whole.length / 2;
  const files: Readonly<Record<string, [Buffer | string, string]>> = {
    "cut.mp4": [whole.subarray(0, middle), "moov atom not found"],
    "damaged.mp4": [
      Buffer.concat([whole.subarray(0, middle), Buffer.alloc(3000, 7), whole.subarray(middle + 3000)]),
      "can't be read as a video",
    ],
    "picture.mp4": [
      ffmpeg("-f", "lavfi", "-i", SMALL, "-frames:v", "1", "-f", "image2pipe", "-"),
      "can't be read as a video",
    ],
  };
  video("sound.mp4", "sine=duration=1");
  for (const [name, [content, sentence]] of Object.entries(files)) {
    writeFileSync(join(folder, name), content);
    await expect(framesOfVideo(join(folder, name), 8), name).rejects.toThrow(sentence);
  }
  await expect(framesOfVideo(join(folder, "sound.mp4"), 8)).rejects.toThrow(
    /^sound\.mp4 can't be read as a video: Stream map .* matches no streams; give an MP4/,
  );
});

test("without ffmpeg a sentence has the command that installs it", async () => {
  vi.stubEnv("PATH", folder);
  await expect(framesOfVideo(join(folder, "whole.mp4"), 8)).rejects.toThrow("apt-get install ffmpeg");
});
