"""Builds one artifact: `python -m engine_room_models.build SPEC.json --output DIR --cache DIR`.

Progress goes to standard error. The only line on standard output is the content of `DIR/facts.json`, which is
written last: where it is, the other files are complete. Exit codes: 0 built, 1 not built, 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import errno
import json
import sys
from pathlib import Path
from typing import Any

from engine_room_models.artifacts import Built, build_artifact, build_seeded_vision_encoder, write_files
from engine_room_models.build_spec import BuildSpec, HubSource, PackageSource, SeededSource, Source, read_spec
from engine_room_models.errors import BuildError
from engine_room_models.sources import SourceUnavailableError, hub_files, package_files

FACTS_FILE = "facts.json"


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m engine_room_models.build", description="Build one artifact."
    )
    parser.add_argument("spec", type=Path, help="JSON file: artifact and sources")
    parser.add_argument("--output", type=Path, required=True, help="folder for the artifact's files")
    parser.add_argument("--cache", type=Path, required=True, help="folder for downloads, kept between builds")
    options = parser.parse_args(arguments)
    try:
        facts = build(read_spec(options.spec), options.output, options.cache)
    except BuildError as error:
        _report(str(error))
        return 1
    except OSError as error:
        _report(describe_os_error(error, options.output))
        return 1
    print(facts)  # noqa: T201 (the command's result)
    return 0


def build(spec: BuildSpec, output: Path, cache: Path) -> str:
    """Builds from the first source that can be had; returns the facts as one line of JSON."""
    reasons: list[str] = []
    for source in spec.sources:
        try:
            built = _from_source(spec, source, cache)
        except SourceUnavailableError as reason:
            reasons.append(f"{source.label()}: {reason}")
            _report(f"{source.label()} is not used: {reason}.")
            continue
        facts = json.dumps(_facts(spec, source, built))
        write_files(output, {**built.files, FACTS_FILE: f"{facts}\n".encode()})
        return facts
    raise BuildError(f"no source of the {spec.artifact} can be had: {'; '.join(reasons)}.")


def _from_source(spec: BuildSpec, source: Source, cache: Path) -> Built:
    if isinstance(source, SeededSource):
        return build_seeded_vision_encoder(source.seed)
    if isinstance(source, PackageSource):
        return build_artifact(spec.artifact, package_files(source))
    return build_artifact(spec.artifact, hub_files(source, cache, _report))


def _facts(spec: BuildSpec, source: Source, built: Built) -> dict[str, Any]:
    return {
        "artifact": spec.artifact,
        "weights": source.label(),
        "meaning": isinstance(source, PackageSource | HubSource),
        **built.facts,
    }


def describe_os_error(error: OSError, output: Path) -> str:
    """What went wrong on the disk, in one sentence for a person."""
    place = error.filename or output
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"{place}: the disk is full; make room and build again (no half-written file is left)."
    return f"{place}: {error.strerror or error}; check the path and its permissions."


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 (the command's progress)


if __name__ == "__main__":
    sys.exit(main())
