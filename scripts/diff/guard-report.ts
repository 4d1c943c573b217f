/** Reports lost protection, granted access, and changes other than those of resources. */
import { counted } from "../../infra/problems.ts";
import { clipped, code, type Inline, joined, link, strong } from "../markdown.ts";
import { HOURLY_DIGITS, usd } from "../plan/amounts.ts";
import { UNKNOWN_PLACEHOLDER } from "../program/serialized.ts";
import {
  type Entry,
  isGrant,
  KIND_WORDS,
  propertyText,
  type Section,
  shownProperties,
} from "./resource-report.ts";
import { PULUMI_KEYS } from "./stack-settings.ts";
import type { LevelChange, ProtectionChange, ProviderChange, SettingChange, StackDiff } from "./types.ts";
import { isLower } from "./violations.ts";

const MOST_NAMED = 5;

/** Names in code, as many as fit. */
function named(names: readonly string[]): Inline {
  const more = names.length - MOST_NAMED;
  const shown = names.slice(0, MOST_NAMED).map((name): Inline => [code(name)]);
  return joined([...shown, ...(more > 0 ? [[`${more} more`]] : [])], ", ");
}

/** Meaning of a changed key; undefined: only with other values. */
type Words = (change: SettingChange, found: readonly string[], diff: StackDiff) => Inline | undefined;

interface SettingRow {
  readonly path: RegExp;
  readonly words: Words;
}

const PROTECTION: readonly SettingRow[] = [
  {
    path: /^policies\.hourlyUsdCap$/,
    words: ({ before, after }) => {
      const isRaised = before !== undefined && (after === undefined || Number(after) > Number(before));
      if (!isRaised) return undefined;
      const cap = (text: string) => usd(Number(text), HOURLY_DIGITS);
      const now = after === undefined ? "no cap" : cap(after);
      return [strong("cap of an hour"), " (", code("policies.hourlyUsdCap"), `): ${cap(before)} → ${now}`];
    },
  },
  {
    path: /^retain\[(.+)\]$/s,
    words: ({ kind }, [name = ""]) =>
      kind === "delete" ? [code("retain"), strong(" no longer names "), code(name)] : undefined,
  },
  {
    path: /^(databaseStorage\.backupDays|engineStore\.backups|acceptUnverified|models\[.+\]\.memoryFit\b.*)$/,
    words: (change) => (isLessProtected(change) ? [code(change.path), ...valueWords(change)] : undefined),
  },
];

/** Fewer days of backups, or none; a check that is switched off. */
function isLessProtected({ path, kind, before, after }: SettingChange): boolean {
  if (path === "acceptUnverified") return after === "true";
  if (path === "engineStore.backups") return after === "false" || (after === undefined && before === "true");
  if (path === "databaseStorage.backupDays")
    return before !== undefined && Number(after ?? 0) < Number(before);
  return kind !== "delete";
}

/** `: 1 → 2`, `: added`. */
function valueWords({ kind, before, after }: SettingChange): Inline {
  if (before === undefined && after === undefined)
    return [`: ${{ add: "added", update: "changed", delete: "removed" }[kind]}`];
  const value = (text: string | undefined) => (text === undefined ? "absent" : code(text));
  return [": ", value(before), " → ", value(after)];
}

/** Rights, by the list of the stack file that grants them. */
const PRINCIPALS: Readonly<Record<string, string>> = {
  "access.admins": "administers the cluster",
  "access.viewers": "reads the cluster's namespaces",
  "access.apiCidrs": "reaches the cluster's API",
  "access.privateCidrs": "reaches the cluster's API",
  "gateway.allowedCidrs": "reaches the gateway",
  "network.peeredCidrs": "reaches an internal gateway",
};

/** List, and its new members. */
const PRINCIPAL = new RegExp(
  `^(${Object.keys(PRINCIPALS).join("|").replaceAll(".", "\\.")})\\[(.+)\\]$`,
  "s",
);

/** The largest networks that were ever assigned have eight bits. */
function width(range: string): Inline {
  const bits = Number(/^[\d.]+\/(\d+)$/.exec(range)?.[1] ?? 32);
  if (bits >= 8) return [];
  return [
    ", ",
    strong(bits === 0 ? "which is everyone" : "which is wider than any network of an organisation"),
  ];
}

const ACCESS: readonly SettingRow[] = [
  {
    path: /^gateway\.apiKeys\[(.+)\]$/s,
    words: ({ kind }, [name = ""]) => {
      if (kind === "add") return ["API key ", code(name), " ", strong("added")];
      return kind === "delete" ? ["API key ", code(name), " ", strong("removed")] : undefined;
    },
  },
  {
    path: /^gateway\.apiKeys\[(.+)\]\.sha256\b/s,
    words: (_change, [name = ""]) => [
      "API key ",
      code(name),
      " ",
      strong("rotated"),
      ": the gateway refuses the former one",
    ],
  },
  {
    path: PRINCIPAL,
    words: ({ kind }, [list = "", name = ""], { account }) => {
      if (kind === "update") return undefined;
      const verb = kind === "add" ? PRINCIPALS[list] : `no longer ${PRINCIPALS[list]}`;
      const foreign = kind === "add" ? foreignAccount(name, account) : [];
      return [code(name), ` ${verb}`, ...foreign, ...(kind === "add" ? width(name) : [])];
    },
  },
  {
    path: /^(gateway\.exposure|access\.endpoint|access\.creatorIsAdmin|host\.address|gateway\.route\b.*|gateway\.wafAclArn)$/,
    words: (change, [path = ""]) => [code(path), ...valueWords(change)],
  },
];

/** @param arn - Or an address range, which has no account. */
function foreignAccount(arn: string, account: string | null): Inline {
  const owner = /^arn:[^:]*:[^:]*:[^:]*:(\d{12}):/.exec(arn)?.[1];
  if (owner === undefined || account === null || owner === account) return [];
  return [", ", strong(`of another account (${owner}) than the stack (${account})`)];
}

/** Returns the row with words for a changed key. */
function wordsOf(rows: readonly SettingRow[], change: SettingChange, diff: StackDiff): Inline | undefined {
  for (const { path, words } of rows) {
    const match = path.exec(change.path);
    const found = match === null ? undefined : words(change, match.slice(1), diff);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Policies, caps, `retain`, `protect`, backups. */
export function protectionSection(diff: StackDiff): Section {
  const { levels, settings, protections } = diff;
  const texts: readonly Inline[] = [
    ...levels.filter(isLower).map(levelText),
    ...settings.flatMap((change) => {
      const words = wordsOf(PROTECTION, change, diff);
      return words === undefined ? [] : [words];
    }),
    ...protectionTexts(protections),
  ];
  return { title: "No longer protected", entries: texts.map((text) => ({ text })) };
}

function levelText({ policy, before, after }: LevelChange): Inline {
  return ["policy ", code(policy), ": ", strong(`${before} → ${after}`), `; judged here as ${before}`];
}

function protectionTexts(protections: readonly ProtectionChange[]): readonly Inline[] {
  return (["protect", "retainOnDelete"] as const).flatMap((option): Inline[] => {
    const lost = protections.filter((change) => change.option === option && !change.after);
    if (lost.length === 0) return [];
    const count = counted(lost.length, "resource");
    return [
      [code(option), " ", strong("is gone"), ` of ${count}: `, ...named(lost.map(({ label }) => label))],
    ];
  });
}

/**
 * API keys by name, administrators and readers of the cluster, ranges of addresses; and grants by the program itself.
 */
export function accessSection(diff: StackDiff): Section {
  const texts = diff.settings.flatMap((change) => {
    const words = wordsOf(ACCESS, change, diff);
    return words === undefined ? [] : [words];
  });
  const named = new Set(
    diff.settings.flatMap(({ path, kind }) => (kind === "add" ? (PRINCIPAL.exec(path)?.[2] ?? []) : [])),
  );
  const granted = (diff.base.hasStack ? (diff.resources ?? []) : []).filter(isGrant).filter(
    // The stack file's principals are listed already.
    ({ after }) => !named.has(String(after?.principalArn)) && after?.principalArn !== UNKNOWN_PLACEHOLDER,
  );
  return {
    title: "Access",
    entries: [
      ...texts.map((text): Entry => ({ text })),
      ...granted.map(
        (change): Entry => ({
          text: [code(change.label), " is ", strong(KIND_WORDS[change.kind])],
          points: shownProperties(change).map(propertyText),
        }),
      ),
    ],
  };
}

/** Settings of providers decide which account or cluster is changed; the others how secrets of the state are encrypted. */
function isOutside({ path }: SettingChange): boolean {
  return (
    /^[^.[]*:/.test(path) ||
    PULUMI_KEYS.some((key) => path === key || path.startsWith(`${key}.`) || path.startsWith(`${key}[`))
  );
}

export function outsideSection({ settings }: StackDiff): Section {
  const outside = settings.filter(isOutside);
  return {
    title: "Account, cluster or encryption of secrets",
    entries: outside.map((change) => ({ text: [code(change.path), ...valueWords(change)] })),
  };
}

/** Settings that no other section has. */
export function settingsSection(diff: StackDiff): Section {
  const rest = diff.settings.filter(
    (change) =>
      !isOutside(change) &&
      wordsOf(PROTECTION, change, diff) === undefined &&
      wordsOf(ACCESS, change, diff) === undefined,
  );
  return {
    title: "Changed keys of the stack file",
    entries: rest.map((change) => ({ text: [code(change.path), ...valueWords(change)] })),
  };
}

/**
 * Addresses of release notes. Each is a tag `v<version>` of its repository, by its workflow: `v*.*.*` in
 * https://github.com/pulumi/pulumi-docker/blob/master/.github/workflows/release.yml and in the other providers',
 * `${TAG#v}` in https://github.com/pulumi/pulumi/blob/master/.github/workflows/on-release.yml
 */
const REPOSITORIES: Readonly<Record<string, string>> = {
  "@pulumi/pulumi": "https://github.com/pulumi/pulumi",
  aws: "https://github.com/pulumi/pulumi-aws",
  docker: "https://github.com/pulumi/pulumi-docker",
  kubernetes: "https://github.com/pulumi/pulumi-kubernetes",
};

const VERSION = /^\d+\.\d+\.\d+$/;

export function providerSection({ providers }: StackDiff): Section {
  return { title: "Providers of another version", entries: providers.map(providerEntry) };
}

/** `aws 7.47.0 → 7.48.0`, as many as fit. */
export function providerVersions({ providers }: StackDiff): readonly string[] {
  const more = providers.length - MOST_NAMED;
  return [...providers.slice(0, MOST_NAMED).map(versionText), ...(more > 0 ? [`${more} more`] : [])];
}

/** Longer texts are not versions. */
const LONGEST_VERSION = 60;

function versionText({ provider, before, after }: ProviderChange): string {
  return clipped(`${provider} ${before} → ${after}`, LONGEST_VERSION);
}

function providerEntry(change: ProviderChange): Entry {
  const { provider, after, resources } = change;
  const count = resources.reduce((sum, one) => sum + one.count, 0);
  const types = resources.slice(0, MOST_NAMED).map((one): Inline => [`${one.count} `, code(one.type)]);
  const more = resources.length - MOST_NAMED;
  const repository = Object.hasOwn(REPOSITORIES, provider) ? REPOSITORIES[provider] : undefined;
  const address =
    repository !== undefined && VERSION.test(after) ? `${repository}/releases/tag/v${after}` : undefined;
  return {
    text: [
      strong(versionText(change)),
      count === 0 ? " runs the program" : ` makes ${counted(count, "resource")}`,
      ...(address === undefined ? [] : ["; ", link("what changed", address)]),
    ],
    points:
      count === 0 ? [] : [joined([...types, ...(more > 0 ? [[`${counted(more, "type")} more`]] : [])], ", ")],
  };
}
