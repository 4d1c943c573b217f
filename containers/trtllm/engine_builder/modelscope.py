"""What a repository of ModelScope has at a revision."""

from __future__ import annotations

import os
from urllib.parse import quote, urlencode

from container_program.hubs import Listing, list_of, plain_path, refused, size_of, unreachable
from container_program.transfer import Connection, RefusedError, RemoteFile, UnreachableError
from engine_builder.spec import ModelScopeSource

MODELSCOPE_DOMAIN = "www.modelscope.cn"


def list_modelscope(source: ModelScopeSource, connection: Connection) -> Listing:
    """Files with their sizes, and sha-256 where the listing has it: it lacks some of old revisions.

    Addresses as modelscope's own client makes them: modelscope/hub/api.py and file_download.py.
    """
    domain = os.environ.get("MODELSCOPE_DOMAIN", MODELSCOPE_DOMAIN).rstrip("/")
    root = domain if "://" in domain else f"https://{domain}"
    repository = quote(source.repository)
    page = f"{root}/models/{source.repository}"
    query = urlencode({"Revision": source.revision, "Recursive": "true"})
    try:
        value = connection.json(f"{root}/api/v1/models/{repository}/repo/files?{query}")
    except RefusedError as error:
        raise refused(source.repository, page, connection.token, error) from error
    except UnreachableError as error:
        raise unreachable(error) from error
    data = value.get("Data") if isinstance(value, dict) else None
    files = []
    for entry in list_of(data, "Files", page):
        if entry.get("Type") == "tree":
            continue
        path = plain_path(entry.get("Path"), page)
        where = urlencode({"Revision": source.revision, "FilePath": path})
        sha256 = entry.get("Sha256") or None
        files.append(
            RemoteFile(
                url=f"{root}/api/v1/models/{repository}/repo?{where}",
                path=path,
                bytes=size_of(entry, "Size", page),
                algorithm="sha256" if sha256 else None,
                digest=sha256,
            )
        )
    return Listing(source.repository, page, tuple(files))
