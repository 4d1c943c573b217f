"""`verify` checks the contents of a store; `gc` removes those that are no longer needed."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.events import Reporter, size_text
from engine_room.shared.manifest import MANIFEST, Manifest, changed, folder_bytes, read_manifest
from engine_room.shared.store_locks import StoreLocks

ENGINES, WEIGHTS, ENCODERS = "engines", "weights", "encoders"
_PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]{8}\.partial")


@dataclass(frozen=True)
class Entry:
    """An engine or the weights of a model. `manifest`: None while a builder works, or after it was killed;
    `locked_as`: the folder whose lock its builder holds."""

    kind: str
    directory: Path
    locked_as: Path
    manifest: Manifest | None
    age_seconds: float

    @property
    def bytes(self) -> int:
        """Bytes of all files; of an incomplete entry, of those written so far."""
        return folder_bytes(self.directory) if self.manifest is None else self.manifest.total_bytes


def verify(directory: Path, report: Reporter) -> None:
    """Reads every file of an engine or of weights. Raises ProgramError if one is not as the manifest
    says."""
    manifest = read_manifest(directory)
    if manifest is None:
        raise ProgramError(f"{directory} has no {MANIFEST} of a complete build.", ExitCode.DAMAGED)
    problems = changed(directory, manifest.files)
    for problem in problems:
        report.event("damaged", f"{directory}: {problem}", directory=str(directory), problem=problem)
    if problems:
        raise ProgramError(
            f"{directory}: {len(problems)} of {len(manifest.files)} files are not as its manifest says, the "
            f"first: {problems[0]}; remove the folder and build it again.",
            ExitCode.DAMAGED,
        )
    report.event(
        "verified",
        f"{directory}: {len(manifest.files)} files, {size_text(manifest.total_bytes)}, all as they were "
        "written",
        directory=str(directory),
        files=len(manifest.files),
        bytes=manifest.total_bytes,
    )


def collect(
    store: Path, keep: Collection[str], min_age_seconds: float, report: Reporter, *, only_tell: bool = False
) -> None:
    """Removes what is older than `min_age_seconds` and is not kept.

    Kept are engines whose key, or its first 12 digits, is in `keep`; the weights of every engine that stays,
    since servers read tokenizers there, and of encoders; and every folder that `keep` names by its path below
    the store. Locked folders stay. With `only_tell` nothing is removed.
    """
    everything = list(entries(store))
    _require_known(keep, everything, store)
    staying = [
        entry for entry in everything if entry.age_seconds < min_age_seconds or _is_kept(entry, keep, store)
    ]
    kept = {entry.directory for entry in staying} | _named_weights(store, staying, everything)
    total = 0
    with StoreLocks(store) as locks:
        for entry in everything:
            if entry.directory in kept:
                continue
            with locks.held_if_free(entry.locked_as) as free:
                # A builder that ended meanwhile may have completed it, or removed it.
                age_seconds = _age_seconds(entry.directory)
                if not free or age_seconds is None or age_seconds < min_age_seconds:
                    continue
                total += entry.bytes
                _tell_removal(entry, store, report, only_tell=only_tell)
                if not only_tell:
                    _remove(entry.directory)
    verb = "could be freed" if only_tell else "freed"
    report.event("collected", f"{store}: {size_text(total)} {verb}", bytes=total, isDone=not only_tell)


def entries(store: Path) -> Iterator[Entry]:
    """Engines and weights, complete or not, sorted by path; what builders are copying too, unless it gets its
    name meanwhile."""
    if not store.is_dir():
        raise ProgramError(f"{store} is not a folder; give the store's path.", ExitCode.WRONG_SPEC)
    for kind, top in (("engine", store / ENGINES), ("weights", store / WEIGHTS)):
        for model in _folders(top):
            for directory in _folders(model):
                age_seconds = _age_seconds(directory)
                if age_seconds is None:
                    continue
                partial = _PARTIAL.fullmatch(directory.name)
                manifest = None if partial else read_manifest(directory)
                yield Entry(
                    kind=kind,
                    directory=directory,
                    locked_as=directory.parent / partial[1] if partial else directory,
                    manifest=manifest,
                    age_seconds=age_seconds,
                )


def _is_kept(entry: Entry, keep: Collection[str], store: Path) -> bool:
    if entry.directory.relative_to(store).as_posix() in keep:
        return True
    if entry.kind != "engine" or entry.manifest is None:
        return False
    return entry.directory.name in keep or entry.manifest.record.get("key") in keep


def _named_weights(store: Path, staying: Sequence[Entry], everything: Sequence[Entry]) -> set[Path]:
    """Weights that the manifest of a staying engine, or of any encoders, names: encoders have a builder of
    their own."""
    manifests = [entry.directory / MANIFEST for entry in staying]
    manifests += (store / ENCODERS).glob(f"*/{MANIFEST}")
    texts = [path.read_text(encoding="utf-8") for path in manifests if path.is_file()]
    return {
        entry.directory
        for entry in everything
        # By the last parts of their paths: builders may mount the store elsewhere.
        if entry.kind == "weights"
        and any(f'/{entry.directory.relative_to(store).as_posix()}"' in text for text in texts)
    }


def _require_known(keep: Collection[str], everything: Sequence[Entry], store: Path) -> None:
    """A mistyped key would remove the engine that it should keep."""
    for name in keep:
        if not any(_is_kept(entry, [name], store) for entry in everything):
            raise ProgramError(
                f"--keep {name}: {store} has no complete engine with this key and no such folder; correct "
                "it, or remove it.",
                ExitCode.WRONG_SPEC,
            )


def _tell_removal(entry: Entry, store: Path, report: Reporter, *, only_tell: bool) -> None:
    verb = "would be removed" if only_tell else "is removed"
    report.event(
        "removed",
        f"{entry.kind:8} {entry.directory.relative_to(store)}: {size_text(entry.bytes)}, "
        f"{_age_text(entry.age_seconds)} old, {verb}",
        kind=entry.kind,
        directory=str(entry.directory),
        bytes=entry.bytes,
        isDone=not only_tell,
    )


def _remove(directory: Path) -> None:
    """The manifest first: what is left of a removal that was killed is not complete."""
    (directory / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(directory)


def _age_seconds(directory: Path) -> float | None:
    """Since the manifest was written; without one, since anything in the folder was. None if the folder
    has gone: builders rename and remove theirs."""
    try:
        return max(0.0, time.time() - (directory / MANIFEST).stat().st_mtime)
    except FileNotFoundError:
        pass
    try:
        newest = directory.stat().st_mtime
    except FileNotFoundError:
        return None
    for base, folders, names in os.walk(directory):
        for name in (*folders, *names):
            try:
                newest = max(newest, (Path(base) / name).lstat().st_mtime)
            except FileNotFoundError:
                continue
    return max(0.0, time.time() - newest)


def _folders(parent: Path) -> list[Path]:
    return sorted(path for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []


def _age_text(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
