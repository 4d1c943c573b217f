"""The weights of a model, in the store once for all engines that are made from them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from engine_room.engine_builder.spec import FolderSource, S3Source, Weights
from engine_room.engine_builder.steps import run_command
from engine_room.shared.download import download, folder_of_weights_in_use
from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.events import Reporter, size_text
from engine_room.shared.hubs import PARTIAL_FOLDER, Hub, HubSource, chosen
from engine_room.shared.manifest import MANIFEST, Manifest, StoredFile, complete_manifest, stored_files
from engine_room.shared.store_locks import StoreLocks


@dataclass(frozen=True)
class PresentWeights:
    """Weights that are complete. `seconds`: duration of this download; 0 without one."""

    directory: Path
    bytes: int
    seconds: float


def complete_weights(weights: Weights) -> PresentWeights | None:
    """Weights whose manifest says that they are all there, and whose files have the sizes that it says; a
    folder of the user's own has no manifest."""
    if isinstance(weights.source, FolderSource):
        return _own_folder(weights.source)
    manifest = complete_manifest(weights.directory, "weights", _identity(weights))
    return None if manifest is None else PresentWeights(weights.directory, manifest.total_bytes, 0.0)


def are_lost(weights: Weights) -> bool:
    """Whether the store no longer has the files that the server of a finished engine reads, such as
    tokenizers. The patterns that chose the files don't matter."""
    is_ours = not isinstance(weights.source, FolderSource)
    return is_ours and complete_manifest(weights.directory, "weights", {}) is None


@contextmanager
def weights_in_use(
    weights: Weights, locks: StoreLocks, scratch: Path, report: Reporter
) -> Iterator[PresentWeights]:
    """Fetches what is missing, one builder at a time for one folder, and keeps the folder from being removed
    until the block ends. Raises ProgramError, OSError.

    `scratch` is an existing folder that the commands of a source run in.
    """
    source = weights.source
    if isinstance(source, FolderSource):
        yield _own_folder(source)
        return

    def fetch(_: Manifest | None) -> tuple[Sequence[StoredFile], Mapping[str, object]]:
        if isinstance(source, S3Source):
            return _run_commands(weights, source, scratch, report), _identity(weights)
        return _from_hub(weights, source, report), _identity(weights)

    with folder_of_weights_in_use(
        weights.directory, locks, lambda: complete_weights(weights) is not None, fetch, report
    ) as seconds:
        present = complete_weights(weights)
        if present is None:
            raise ProgramError(
                f"{weights.directory} loses files while it is in use; check who else writes to the store.",
                ExitCode.DAMAGED,
            )
        if seconds == 0:
            report.event(
                "weights-present",
                f"weights: {weights.directory} has all {size_text(present.bytes)}",
                directory=str(weights.directory),
                bytes=present.bytes,
            )
        yield replace(present, seconds=seconds)


def check_image_processor(weights: Path, planned: Mapping[str, object]) -> None:
    """Raises ProgramError when the weights' image processor differs from the plan's. A missing file or key
    passes."""
    file = weights / str(planned["file"])
    if not file.is_file():
        return
    found = json.loads(file.read_bytes())
    name = "image_processor_type"
    # Older files have another word for it, and newer ones may name the class of the same pixels on a GPU.
    old = str(found.get("feature_extractor_type", "")).replace("FeatureExtractor", "ImageProcessor")
    found[name] = str(found.get(name) or old or planned[name]).removesuffix("Fast")
    for key, value in planned.items():
        if key != "file" and key in found and not _is_alike(found[key], value):
            raise ProgramError(
                f"{file} has {key} {json.dumps(found[key])}, and the model's row in the plan "
                f"{json.dumps(value)}: the server would show the model other pixels than it knows; name the "
                "row of these weights, or give it their image processor.",
                ExitCode.WRONG_SPEC,
            )


def _is_alike(found: object, planned: object) -> bool:
    """A number stands for each edge in older files."""
    return found == planned or (isinstance(planned, dict) and found in planned.values())


def _from_hub(weights: Weights, source: HubSource, report: Reporter) -> tuple[StoredFile, ...]:
    hub = Hub(source)
    listing = hub.listing()
    files = tuple(
        file
        for file in chosen(hub, listing, weights.include, weights.exclude)
        # The store's own name; no converter reads a file of a hub that is called so.
        if file.path != MANIFEST
    )
    total = sum(file.bytes for file in files)
    report.event(
        "weights-started",
        f"weights: {len(files)} of the {len(listing)} files of {hub.page}, {size_text(total)}",
        source=hub.page,
        revision=source.revision,
        files=len(files),
        bytes=total,
    )
    return download(hub, files, weights.directory, report.event)


def _run_commands(
    weights: Weights, source: S3Source, scratch: Path, report: Reporter
) -> tuple[StoredFile, ...]:
    """The AWS CLI resumes after a kill, and verifies the files."""
    report.event("weights-started", f"weights: {source.uri}", source=source.uri, revision=source.revision)
    for command in weights.commands:
        run_command("download", command, {}, scratch, report)
    files = tuple(file for file in stored_files(weights.directory, PARTIAL_FOLDER) if file.path != MANIFEST)
    if not files:
        raise ProgramError(
            f"{source.uri} has no files; correct the weights of the model.", ExitCode.WRONG_SPEC
        )
    return files


def _own_folder(source: FolderSource) -> PresentWeights:
    if not (source.path / "config.json").is_file():
        raise ProgramError(
            f"{source.path} has no config.json; mount the folder of the weights there.", ExitCode.WRONG_SPEC
        )
    files = (path for path in source.path.rglob("*") if path.is_file())
    return PresentWeights(source.path, sum(file.stat().st_size for file in files), 0.0)


def _identity(weights: Weights) -> dict[str, object]:
    """Fields that decide which files are required."""
    return {
        "source": dict(weights.source_record),
        "include": list(weights.include),
        "exclude": list(weights.exclude),
    }
