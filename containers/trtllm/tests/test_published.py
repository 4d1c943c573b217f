"""What the engine builder publishes is what the entry point reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builder_process import RECORDED, Workspace

from container_program.errors import ProgramError
from triton_entrypoint.manifest import check_manifest
from triton_entrypoint.spec import ServerSpec, read_spec

SERVERS = RECORDED.parent / "server-specs"


def server_spec(workspace: Workspace) -> ServerSpec:
    """The same example's server.json, with the test's store."""
    path = workspace.folder / "server.json"
    text = (SERVERS / "llava-1.5.llava.json").read_text()
    path.write_text(text.replace('"/store/', f'"{workspace.store}/'))
    return read_spec(path)


def test_the_entry_point_takes_what_was_built(workspace: Workspace) -> None:
    assert workspace.build().code == 0
    spec = server_spec(workspace)
    assert spec.engine_directory == workspace.engine
    manifest = check_manifest(spec, workspace.engine)
    record = json.loads((workspace.engine / "manifest.json").read_text())
    assert [(file.path, file.bytes, file.sha256) for file in manifest.files] == [
        (file["path"], file["bytes"], file["sha256"]) for file in record["files"]
    ]
    assert "llm/rank0.engine" in {file.path for file in manifest.files}


def test_the_entry_point_refuses_what_was_cut_since(workspace: Workspace) -> None:
    assert workspace.build().code == 0
    (workspace.engine / "llm" / "rank0.engine").write_bytes(b"half")
    with pytest.raises(
        ProgramError, match=r"llm/rank0\.engine has 4 bytes instead of \d+; remove the folder"
    ):
        check_manifest(server_spec(workspace), Path(workspace.engine))
