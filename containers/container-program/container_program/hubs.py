"""What a repository of a model hub has at a revision, and which of its files are wanted."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from container_program.errors import ExitCode, ProgramError
from container_program.transfer import Connection, RefusedError, RemoteFile, UnreachableError

HUB_ENDPOINT = "https://huggingface.co"
# Beside the files of a repository: parts of those that are being fetched.
PARTIAL_FOLDER = ".partial"
# Other revisions are names, which the hub turns into commits.
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class HubSource:
    """A repository of the Hugging Face hub at a commit."""

    repository: str
    revision: str


@dataclass(frozen=True)
class Listing:
    """`page` is where a person finds the repository, and its licence."""

    name: str
    page: str
    files: tuple[RemoteFile, ...]


def hub_endpoint(environment: Mapping[str, str]) -> str:
    """HF_ENDPOINT is the variable that the hub's own client reads."""
    return environment.get("HF_ENDPOINT", HUB_ENDPOINT).rstrip("/")


def list_hub(source: HubSource, connection: Connection) -> Listing:
    """Files with their sizes and hashes; sha-256 of what is in LFS, git's own of the rest."""
    endpoint = hub_endpoint(os.environ)
    repository, revision = quote(source.repository), quote(source.revision, safe="")
    page = f"{endpoint}/{source.repository}"
    try:
        value = connection.json(f"{endpoint}/api/models/{repository}/revision/{revision}?blobs=true")
    except RefusedError as error:
        raise refused(source.repository, page, connection.token, error) from error
    except UnreachableError as error:
        raise unreachable(error) from error
    commit = value.get("sha") if isinstance(value, dict) else None
    if _COMMIT.fullmatch(source.revision) and commit != source.revision:
        raise _strange(page, f"the commit {commit!r} instead of {source.revision}")
    files = []
    for sibling in list_of(value, "siblings", page):
        path, lfs = plain_path(sibling.get("rfilename"), page), sibling.get("lfs")
        files.append(
            RemoteFile(
                url=f"{endpoint}/{repository}/resolve/{revision}/{quote(path)}",
                path=path,
                bytes=size_of(lfs if lfs else sibling, "size", page),
                algorithm="sha256" if lfs else "git" if sibling.get("blobId") else None,
                digest=lfs.get("sha256") if lfs else sibling.get("blobId"),
            )
        )
    return Listing(source.repository, page, tuple(files))


def chosen(
    listing: Listing, include: Sequence[str], exclude: Sequence[str], revision: str
) -> tuple[RemoteFile, ...]:
    """Files whose paths match, as the hub's own client matches them. Raises ProgramError where none does."""
    files = tuple(
        file
        for file in listing.files
        if (not include or _matches(file.path, include)) and not _matches(file.path, exclude)
    )
    twice = len(files) - len({file.path for file in files})
    if twice:
        raise _strange(listing.page, f"{twice} paths twice")
    if not files:
        raise ProgramError(
            f"{listing.page} has {len(listing.files)} files at {revision} and none that matches "
            f"{', '.join(include) or 'no pattern of exclude'}; correct the weights of the model.",
            ExitCode.WRONG_SPEC,
        )
    return files


def refused(name: str, page: str, token: str | None, error: RefusedError) -> ProgramError:
    """401, 403 and 404, as what a person can do about it."""
    said = f" ({error.reason})" if error.reason else ""
    if error.status == 404 or error.kind in {"RepoNotFound", "RevisionNotFound", "EntryNotFound"}:
        return ProgramError(
            f"{name} is not there at this revision{said}, or is private; look at {page}.", ExitCode.NO_ACCESS
        )
    if token is None:
        return ProgramError(
            f"{name} answers {error.status}{said}: it wants a token; accept the licence at {page} and give "
            "the stack a token of that account.",
            ExitCode.NO_ACCESS,
        )
    return ProgramError(
        f"{name} answers {error.status}{said} in spite of the token; accept the licence at {page} with the "
        "account that the token is of.",
        ExitCode.NO_ACCESS,
    )


def unreachable(error: UnreachableError) -> ProgramError:
    """The sentence for a server that does not answer."""
    return ProgramError(f"{error}; try again, or give another source of the weights.", ExitCode.UNREACHABLE)


def _matches(path: str, patterns: Sequence[str]) -> bool:
    """A pattern with a slash at its end stands for the folder."""
    return any(
        fnmatch.fnmatchcase(path, f"{pattern}*" if pattern.endswith("/") else pattern) for pattern in patterns
    )


def list_of(value: object, name: str, page: str) -> list[dict[str, Any]]:
    """A list of objects in a listing. Raises ProgramError where the answer is of another kind."""
    items = value.get(name) if isinstance(value, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise _strange(page, f"no list {name}")
    return items


def size_of(value: Mapping[str, object], name: str, page: str) -> int:
    """A size in bytes. Raises ProgramError."""
    size = value.get(name)
    if type(size) is not int or size < 0:
        raise _strange(page, f"a size {size!r}")
    return size


def plain_path(path: object, page: str) -> str:
    """A listing must not make us write outside of the folder."""
    if not isinstance(path, str) or path in {"", "."} or str(PurePosixPath(path)) != path:
        raise _strange(page, f"a path {path!r}")
    parts = PurePosixPath(path).parts
    # The last is where parts of files lie while they are fetched.
    if path.startswith("/") or ".." in parts or "\0" in path or "\\" in path or parts[0] == PARTIAL_FOLDER:
        raise _strange(page, f"a path {path!r}")
    return path


def _strange(page: str, what: str) -> ProgramError:
    return ProgramError(
        f"the listing of {page} has {what}; a proxy on the way may answer instead of the hub.",
        ExitCode.UNREACHABLE,
    )
