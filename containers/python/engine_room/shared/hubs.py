"""Files of the Hugging Face hub and of ModelScope: listed, chosen, fetched, verified.

The client is huggingface_hub. NVIDIA's images have it for their transformers, from 0.20 on, the other images
by their locks: only functions that all versions have are called. Since
https://github.com/huggingface/huggingface_hub/pull/4228 its hf_hub_download starts over after a kill, and it
never checks hashes; http_get below it resumes.
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal
from urllib.parse import quote, urlencode

from engine_room.shared.errors import ExitCode, ProgramError

# Beside the files of a repository: partial downloads.
PARTIAL_FOLDER = ".partial"
# One connection to a hub's storage uses about a quarter of a machine's network bandwidth.
WORKERS = 4
PROGRESS_SECONDS = 10.0
# The library reads them when it is imported. Its warnings name signed addresses of the storage.
_SETTINGS = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DOWNLOAD_TIMEOUT": "30",
    "HF_HUB_VERBOSITY": "error",
}
_SYSTEMS_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True)
class RetryPolicy:
    """`attempts` without a byte are made, with pauses that double. `answer_seconds` are for a listing. A hub
    of which nothing comes in `idle_seconds` is given up, whatever the library waits for."""

    attempts: int = 6
    answer_seconds: float = 30.0
    idle_seconds: float = 600.0
    first_pause_seconds: float = 1.0


BUILDERS_RETRY_POLICY = RetryPolicy()


@dataclass(frozen=True)
class HubSource:
    """A repository at a revision."""

    kind: Literal["hub", "modelscope"]
    repository: str
    revision: str


@dataclass(frozen=True)
class RemoteFile:
    """`digest`: the content's sha-256, or git's hash of it as a blob, or None when unknown."""

    path: str
    bytes: int
    digest: str | None


class CancelledError(Exception):
    """Another file failed, the builder was stopped, or more has arrived than the file has."""


class Hub:
    """A repository's files. `page` is where a person finds it, and its licence."""

    def __init__(self, source: HubSource, retry_policy: RetryPolicy | None = None) -> None:
        """HF_ENDPOINT and MODELSCOPE_DOMAIN name mirrors, as for the hubs' own clients; HF_TOKEN_PATH the
        file with the Hugging Face hub's token. Raises ProgramError."""
        self.source = source
        self.retry_policy = retry_policy or BUILDERS_RETRY_POLICY
        self._is_modelscope = source.kind == "modelscope"
        name, usual = "HF_ENDPOINT", "https://huggingface.co"
        if self._is_modelscope:
            name, usual = "MODELSCOPE_DOMAIN", "www.modelscope.cn"
        address = os.environ.get(name, "").rstrip("/") or usual
        self._root = address if "://" in address else f"https://{address}"
        self.page = f"{self._root}/{'models/' if self._is_modelscope else ''}{source.repository}"
        self._token = None if self._is_modelscope else read_token(os.environ)
        self._cancel = threading.Event()
        self._last_sign = time.monotonic()

    def listing(self) -> tuple[RemoteFile, ...]:
        """Every file with its size and what hash of it the hub knows. Raises ProgramError."""
        found: list[tuple[RemoteFile, ...]] = []
        ask = self._list_modelscope if self._is_modelscope else self._list_hub
        self.run([lambda: found.append(self.patiently(ask))])
        return found[0]

    def pinned(
        self, sha256: Mapping[str, str | None], optional: Iterable[str] = ()
    ) -> tuple[RemoteFile, ...]:
        """Files by their path, with a sha-256 that counts more than the listing's, if there is one;
        `optional` files if the repository has them. Raises ProgramError."""
        listed = {file.path: file for file in self.listing()}
        sha256 = {**dict.fromkeys(path for path in optional if path in listed), **sha256}
        for path in sha256.keys() - listed.keys():
            name = self.source.repository
            raise ProgramError(
                f"{name} has no {path} at this revision; look at {self.page}.", ExitCode.NO_ACCESS
            )
        return tuple(
            replace(listed[path], digest=digest or listed[path].digest) for path, digest in sha256.items()
        )

    def transfer(self, path: str, target: BinaryIO, start: int) -> None:
        """Fetches a file from byte `start` on. Raises errors of the library, and of `target`."""
        repository, revision = self.source.repository, self.source.revision
        if self._is_modelscope:
            # As modelscope's own client makes it: modelscope/hub/file_download.py.
            where = urlencode({"Revision": revision, "FilePath": path})
            url = f"{self._root}/api/v1/models/{quote(repository)}/repo?{where}"
        else:
            url = _library().hf_hub_url(repository, path, revision=revision, endpoint=self._root)
        headers = {"user-agent": "engine-room"}
        if self._token is not None:
            # requests and httpx drop it if they are redirected to another origin.
            headers["authorization"] = f"Bearer {self._token}"
        _library().file_download.http_get(url, target, resume_size=start, headers=headers)

    def _list_hub(self) -> tuple[RemoteFile, ...]:
        """Files in LFS have their sha-256, others git's hash."""
        revision = self.source.revision
        info = (
            _library()
            .HfApi(endpoint=self._root, token=self._token or False)
            .model_info(
                self.source.repository,
                revision=revision,
                files_metadata=True,
                timeout=self.retry_policy.answer_seconds,
            )
        )
        # Other revisions are names, which the hub turns into commits.
        if re.fullmatch("[0-9a-f]{40}", revision) and info.sha != revision:
            raise self._strange(f"has the commit {info.sha!r} instead of {revision}")
        if not info.siblings:
            raise self._strange("has no files")
        files = []
        for sibling in info.siblings:
            size, digest = sibling.size, sibling.blob_id
            if sibling.lfs:
                size, digest = sibling.lfs["size"], sibling.lfs["sha256"]
            files.append(self._listed(sibling.rfilename, size, digest))
        return tuple(files)

    def _list_modelscope(self) -> tuple[RemoteFile, ...]:
        """With sha-256 if ModelScope has it: it lacks some of old revisions. As modelscope/hub/api.py, for
        it does not speak as the other hub: https://github.com/modelscope/modelscope/issues/1269."""
        query = urlencode({"Revision": self.source.revision, "Recursive": "true"})
        url = f"{self._root}/api/v1/models/{quote(self.source.repository)}/repo/files?{query}"
        utils = _library().utils
        response = utils.get_session().get(url, timeout=self.retry_policy.answer_seconds)
        utils.hf_raise_for_status(response)
        files = response.json()["Data"]["Files"]
        return tuple(
            self._listed(file["Path"], file["Size"], file.get("Sha256"))
            for file in files
            if file.get("Type") != "tree"
        )

    def _listed(self, path: object, size: object, digest: str | None) -> RemoteFile:
        # A listing must not make us write outside of the folder, or where parts of files lie.
        if not isinstance(path, str) or not is_plain_path(path) or path.startswith(f"{PARTIAL_FOLDER}/"):
            raise self._strange(f"has a path {path!r}")
        if type(size) is not int or size < 0:
            raise self._strange(f"has a size {size!r}")
        return RemoteFile(path, size, digest or None)

    def _strange(self, what: str) -> ProgramError:
        """Error of an answer that does not come from a hub."""
        return ProgramError(
            f"the listing of {self.page} {what}; a proxy on the way may answer instead of the hub.",
            ExitCode.UNREACHABLE,
        )

    def _unreachable(self, why: str) -> ProgramError:
        """Error after all attempts."""
        return ProgramError(
            f"{self.page} can't be reached: {why}; try again, or give another source of the weights.",
            ExitCode.UNREACHABLE,
        )

    def _refused(self, status: int, headers: Mapping[str, str]) -> ProgramError:
        """Error of an answer of 401, 403 or 404."""
        reason = headers.get("X-Error-Message")
        name, said = self.source.repository, f" ({reason})" if reason else ""
        # The hub answers 401 if there is no such repository and no token.
        if status == 404 or headers.get("X-Error-Code", "").endswith("NotFound"):
            message = f"is not there at this revision{said}, or is private; look at {self.page}."
        elif self._token is None:
            message = (
                f"answers {status}{said}: it requires a token; accept the licence at {self.page} and give "
                "the stack a token of that account."
            )
        else:
            message = (
                f"answers {status}{said} despite the token; accept the licence at {self.page} with the "
                "account that the token is of."
            )
        return ProgramError(f"{name} {message}", ExitCode.NO_ACCESS)

    def run(
        self, jobs: Sequence[Callable[[], None]], tell_progress: Callable[[], None] = lambda: None
    ) -> None:
        """In a few threads that end with the process: a signal must not wait for a server that is silent.
        Raises the first error, which cancels the others."""
        self._cancel.clear()
        self.sign()
        waiting, errors = list(reversed(jobs)), list[Exception]()

        def worker() -> None:
            # Signals are the main thread's, which waits for them; the library's threads inherit this.
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            while waiting and not self._cancel.is_set():
                try:
                    waiting.pop()()
                except (CancelledError, IndexError):
                    return
                except Exception as error:
                    errors.append(error)
                    self._cancel.set()

        threads = [threading.Thread(target=worker, daemon=True) for _ in range(min(WORKERS, len(jobs)))]
        for thread in threads:
            thread.start()
        told, limit = time.monotonic(), self.retry_policy.idle_seconds
        try:
            for thread in threads:
                while thread.is_alive() and not errors:
                    thread.join(0.2)
                    now = time.monotonic()
                    if now - self._last_sign > limit:
                        raise self._unreachable(f"nothing arrives in {limit:g} s")
                    if now - told >= PROGRESS_SECONDS:
                        told = now
                        tell_progress()
        finally:
            self._cancel.set()
        if errors:
            raise errors[0]

    def sign(self, ahead_seconds: float = 0.0) -> None:
        """Bytes have arrived or were read, or an attempt follows that much later."""
        if self._cancel.is_set():
            raise CancelledError
        self._last_sign = max(self._last_sign, time.monotonic() + ahead_seconds)

    def patiently(self, ask: Callable[[], Any], arrived: Callable[[], int] = lambda: 0) -> Any:
        """`arrived` counts bytes: a long transfer may break off often, as long as it gets ahead."""
        failures, before = 0, arrived()
        while True:
            try:
                return ask()
            except (ProgramError, CancelledError):
                raise
            except Exception as error:
                # Only errors of the disk have a number.
                if getattr(error, "errno", None):
                    raise
                why = self._why_again(error)
                failures = 1 if arrived() > before else failures + 1
                before = arrived()
                if failures >= self.retry_policy.attempts:
                    raise self._unreachable(f"{why} ({failures} attempts)") from error
            pause = self.retry_policy.first_pause_seconds * 2 ** (failures - 1)
            self.sign(pause)
            self._cancel.wait(pause)

    def _why_again(self, error: Exception) -> str:
        """Reason for a retry after an error of the library, whose classes differ between versions. Raises
        ProgramError when a retry can't help."""
        response = getattr(error, "response", None)
        if response is not None:
            status = response.status_code
            if status in {401, 403, 404}:
                raise self._refused(status, response.headers) from error
            why = f"answers {status} {http.client.responses.get(status, '')}"
            if status < 500 and status not in {408, 425, 429}:
                raise self._unreachable(why) from error
            return why
        if type(error).__name__ == "OfflineModeIsEnabled":
            raise self._unreachable("HF_HUB_OFFLINE is set") from error
        if isinstance(error, ValueError | LookupError | TypeError | AttributeError):
            raise self._strange(f"can't be read ({type(error).__name__}: {error})") from error
        innermost: BaseException = error
        while (inner := innermost.__cause__ or innermost.__context__) is not None:
            innermost = inner
        return str(innermost) or type(innermost).__name__


def chosen(
    hub: Hub, files: Sequence[RemoteFile], include: Sequence[str], exclude: Sequence[str]
) -> tuple[RemoteFile, ...]:
    """Files whose paths match, as the hub's own client matches them. Raises ProgramError if none does."""
    # A slash at a pattern's end stands for the folder; older versions of the library don't know it.
    allow, ignore = ([f"{one}*" if one.endswith("/") else one for one in each] for each in (include, exclude))
    found = tuple(
        _library().utils.filter_repo_objects(
            files, allow_patterns=allow or None, ignore_patterns=ignore, key=lambda file: file.path
        )
    )
    if not found:
        raise ProgramError(
            f"{hub.page} has {len(files)} files at {hub.source.revision} and none that matches "
            f"{', '.join(include) or 'no pattern of exclude'}; correct the weights of the model.",
            ExitCode.WRONG_SPEC,
        )
    return found


def _library() -> Any:
    """Imported when something is fetched: a start that needs nothing is faster without."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    # Its Rust client does not write through our file object.
    os.environ["HF_HUB_ENABLE_HF_TRANSFER"] = "0"
    # By default requests and httpx trust only certifi's authorities, not those that a company has added.
    certificates = os.environ.get("SSL_CERT_FILE", _SYSTEMS_CERTIFICATES)
    if Path(certificates).is_file():
        os.environ.setdefault("SSL_CERT_FILE", certificates)
        os.environ.setdefault("REQUESTS_CA_BUNDLE", certificates)
    import huggingface_hub.file_download
    import huggingface_hub.utils

    return huggingface_hub


def is_plain_path(path: str) -> bool:
    """Whether it is relative, in its shortest form, and stays below the folder that it is relative to."""
    pure = PurePosixPath(path)
    is_inside = not pure.is_absolute() and ".." not in pure.parts and path not in {"", "."}
    return is_inside and str(pure) == path and "\\" not in path and "\0" not in path


def read_token(environment: Mapping[str, str]) -> str | None:
    """Token in the file that HF_TOKEN_PATH names; None when unset. It is sent only to the hub, and never
    written into arguments, logs or a manifest. Raises ProgramError."""
    name = environment.get("HF_TOKEN_PATH", "")
    if name == "":
        return None
    try:
        token = Path(name).read_text(encoding="ascii").strip()
        why = None if token and token.isprintable() and " " not in token else "holds no token"
    except OSError as error:
        why = f"can't be read: {error.strerror}"
    except UnicodeDecodeError:
        why = "can't be read: it is not ASCII text"
    if why is not None:
        raise ProgramError(
            f"{name}, which HF_TOKEN_PATH names, {why}; mount the hub's token there.", ExitCode.NO_ACCESS
        )
    return token
