/** Folders that go with what made them, also where this process is told to end. */
import { rmSync } from "node:fs";
import { rm } from "node:fs/promises";
import { constants } from "node:os";

const folders = new Set<string>();

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Lets `use` have a new folder. */
export async function withFolder<T>(folder: string, use: (folder: string) => Promise<T>): Promise<T> {
  if (folders.size === 0) watch();
  folders.add(folder);
  try {
    return await use(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
    folders.delete(folder);
    if (folders.size === 0) unwatch();
  }
}

function watch(): void {
  process.on("exit", removeAll);
  for (const signal of SIGNALS) process.on(signal, end);
}

function unwatch(): void {
  process.off("exit", removeAll);
  for (const signal of SIGNALS) process.off(signal, end);
}

function removeAll(): void {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}

function end(signal: NodeJS.Signals): void {
  process.exit(128 + constants.signals[signal]);
}
