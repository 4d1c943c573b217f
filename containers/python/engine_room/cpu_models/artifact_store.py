"""Artifacts by the sources and builder that they are built from, so that each is built once.

As a command it fills a folder for an image to carry: `python -m engine_room.cpu_models.artifact_store
SPECS.json --store DIR --downloads DIR` builds every artifact of a JSON list. Exit codes: 0 all built,
1 a failure, 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from engine_room.cpu_models.build import FACTS_FILE, build, exit_code
from engine_room.cpu_models.sources import BuildSpec, parse_spec
from engine_room.shared.errors import ProgramError
from engine_room.shared.specs import read_json, wrong_field
from engine_room.shared.store_locks import folder_lock


def artifact_folder(value: object, origin: str, *, carried: Path, built: Path, downloads: Path) -> Path:
    """Returns the artifact's folder, and builds it if needed. `value` is its spec from JSON; messages begin
    with `origin`. Raises ProgramError, OSError.

    The folder's name is the sha-256 of its spec and of the builder, so that neither another spec nor another
    builder ever gets it. `carried` is the image's store, read-only, and may be missing. Other artifacts are
    built into `built`, which is kept and may be shared by several processes; `downloads` keeps files of
    model hubs.
    """
    spec = parse_spec(value, origin)
    key = artifact_key(value)
    for place in (carried / key, built / key):
        if _is_complete(place):
            return place
    _require_writable(spec, carried, built)
    built.mkdir(parents=True, exist_ok=True)
    # Each build uses all cores, and two may be after the same artifact.
    with folder_lock(built):
        # Another process may have built it in the meantime.
        if not _is_complete(built / key):
            build(spec, built / key, downloads)
    return built / key


def _require_writable(spec: BuildSpec, carried: Path, built: Path) -> None:
    existing = next(place for place in (built, *built.parents) if place.exists())
    if not os.access(existing, os.W_OK):
        sources = " or ".join(source.label for source in spec.sources)
        raise ProgramError(
            f"the {spec.artifact} from {sources} is not in {carried} and has to be built, but user "
            f"{os.getuid()} can't write to {existing}; mount a volume there that it can write to."
        )


def artifact_key(value: object) -> str:
    """64 hex digits; the order of the spec's keys does not matter."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{_builder_sha256()}\n{canonical}".encode()).hexdigest()


@cache
def _builder_sha256() -> str:
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(f"{file.name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _is_complete(folder: Path) -> bool:
    """The builder puts the folder in place as a whole, with the facts in it."""
    return (folder / FACTS_FILE).is_file()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m engine_room.cpu_models.artifact_store", description="Build a list of artifacts."
    )
    parser.add_argument("specs", type=Path, help="JSON file: a list of artifacts with their sources")
    parser.add_argument("--store", type=Path, required=True, metavar="DIR", help="folder to build them into")
    parser.add_argument("--downloads", type=Path, required=True, metavar="DIR", help="folder for downloads")
    options = parser.parse_args(arguments)
    return exit_code(lambda: _fill(options.specs, options.store, options.downloads))


def _fill(specs: Path, store: Path, downloads: Path) -> None:
    values = read_json(specs)
    if not isinstance(values, list):
        raise wrong_field(specs, "the content", values, "a list of artifacts")
    for index, value in enumerate(values):
        origin = f"{specs}: [{index}]"
        folder = artifact_folder(value, origin, carried=store, built=store, downloads=downloads)
        print((folder / FACTS_FILE).read_text(), end="")  # noqa: T201 (the command's result)


if __name__ == "__main__":
    sys.exit(main())
