"""Builds from a spec to an engine in the store, with fakes of the image's programs."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from engine_workspace import IMAGE, RECORDED, Workspace, is_alive, wait_until
from model_hub import FILES, REPOSITORY, REVISION, FakeHub
from open_mpi import needs_open_mpi

from engine_room.shared.errors import ProgramError
from engine_room.shared.manifest import read_manifest, sha256_of
from engine_room.triton_entrypoint.manifest import check_manifest
from engine_room.triton_entrypoint.spec import ServerSpec, read_spec

SPECS = sorted(path.stem for path in RECORDED.glob("*.json"))


def test_a_build_leaves_an_engine_and_nothing_else(workspace: Workspace) -> None:
    result = workspace.build()
    assert result.code == 0, result.lines
    assert workspace.tools_run == ["convert", "llm", "vision", "check"]
    assert sorted(str(path.relative_to(workspace.engine)) for path in workspace.engine.rglob("*.*")) == [
        "llm/config.json",
        "llm/rank0.engine",
        "manifest.json",
        "vision/config.json",
        "vision/model.engine",
    ]
    assert workspace.leftovers() == []
    assert list(workspace.scratch.rglob("*.*")) == []
    [complete] = result.named("complete")
    assert complete["isNew"] is True
    assert complete["directory"] == str(workspace.engine)
    assert complete["bytes"] == read_total(workspace.engine)


def test_the_manifest_has_versions_sizes_hashes_and_seconds(workspace: Workspace) -> None:
    assert workspace.build(ENGINE_ROOM_IMAGE="registry.example.org/trtllm@sha256:1").code == 0
    record = json.loads((workspace.engine / "manifest.json").read_text())
    plan = workspace.spec["plan"]
    assert record["key"] == plan["key"]
    assert record["keyFields"] == plan["keyFields"]
    assert record["release"] == workspace.spec["release"]
    assert record["gpu"] == workspace.spec["gpu"]
    assert record["builtWith"] | {"python": "3"} == {
        "tensorRtLlm": "0.20.0",
        "tensorRt": "10.10.0.31",
        "driver": "575.57.08",
        "gpu": "A10G",
        "python": "3",
        "image": "registry.example.org/trtllm@sha256:1",
    }
    assert record["worldSize"] == 1
    assert record["golden"]["answer"] == "['A cup of coffee on a red saucer']"
    assert set(record["seconds"]) == {"download", "convert", "llm", "vision", "check", "copy"}
    for file in record["files"]:
        path = workspace.engine / file["path"]
        assert (path.stat().st_size, sha256_of(path)) == (file["bytes"], file["sha256"])


def test_a_complete_engine_needs_no_gpu_no_image_and_no_network(workspace: Workspace, hub: FakeHub) -> None:
    assert workspace.build().code == 0
    asked = len(hub.hub.requests)
    result = workspace.build(PATH="/nonexistent", HF_ENDPOINT="http://127.0.0.1:1")
    assert (result.code, len(hub.hub.requests)) == (0, asked)
    assert [event["event"] for event in result.events] == ["complete"]
    assert result.events[0]["isNew"] is False


def test_lost_weights_of_a_complete_engine_are_fetched_again(workspace: Workspace) -> None:
    assert workspace.build().code == 0
    remove_tree(workspace.weights)
    # No GPU, and none of the image's programs.
    result = workspace.build(PATH="/nonexistent")
    assert result.code == 0, result.lines
    assert result.events[-1]["event"] == "complete"
    assert result.events[-1]["isNew"] is False
    assert workspace.run("verify", str(workspace.weights)).code == 0


def test_a_complete_engine_does_not_ask_for_weights_of_other_patterns(workspace: Workspace) -> None:
    assert workspace.build().code == 0
    workspace.spec["weights"]["include"] = ["*"]
    result = workspace.build(HF_ENDPOINT="http://127.0.0.1:1")
    assert [event["event"] for event in result.events] == ["complete"]


def test_an_engine_that_lost_a_file_is_built_again(workspace: Workspace) -> None:
    assert workspace.build().code == 0
    (workspace.engine / "llm" / "rank0.engine").write_bytes(b"half")
    result = workspace.build()
    assert result.named("complete")[0]["isNew"] is True
    assert workspace.run("verify", str(workspace.engine)).code == 0
    assert workspace.leftovers() == []


def test_the_weights_stay_for_the_next_engine(workspace: Workspace, hub: FakeHub) -> None:
    assert workspace.build().code == 0
    manifest = read_manifest(workspace.weights)
    assert manifest is not None
    # The patterns of the spec leave out the other formats.
    assert {file.path for file in manifest.files} == {
        name for name in FILES if name.endswith((".safetensors", ".json", "tokenizer.model"))
    }
    remove_tree(workspace.engine)
    result = workspace.build(HF_ENDPOINT="http://127.0.0.1:1")
    assert result.code == 0
    assert [event["bytes"] for event in result.named("weights-present")] == [manifest.total_bytes]
    assert sorted(hub.transfers) == sorted(
        path for path in hub.files if path.endswith((".safetensors", ".model"))
    )


def test_commands_never_write_below_the_store(workspace: Workspace) -> None:
    result = workspace.build()
    for event in result.named("step-started"):
        outputs = [word for word in event["argv"] if word.startswith(str(workspace.store))]
        # Only the weights are read there.
        assert set(outputs) <= {str(workspace.weights)}


def test_every_event_has_a_time_and_a_readable_line(workspace: Workspace) -> None:
    result = workspace.build()
    assert [event["event"] for event in result.events if event["event"].startswith("step")] == [
        "step-started",
        "step-finished",
    ] * 4
    for event in result.named("step-finished"):
        assert f"{event['step']}: " in result.lines
        assert event["seconds"] >= 0
    assert all(event["time"].endswith("Z") for event in result.events)
    # Output of the programs is only in the readable lines.
    assert "llm: [07/15/2025-10:00:00] [TRT-LLM] [I] Total time" in result.lines


@needs_open_mpi
def test_an_engine_has_the_ranks_of_the_plan(workspace: Workspace) -> None:
    gpus = "\n".join(["NVIDIA A10G, 8.6, 575.57.08"] * 2)
    two_ranks(workspace.spec)
    assert workspace.build(FAKE_GPUS=gpus).code == 0
    ranks = sorted(path.name for path in (workspace.engine / "llm").glob("rank*"))
    assert ranks == ["rank0.engine", "rank1.engine"]


def test_an_engine_with_other_ranks_than_planned_is_refused(workspace: Workspace) -> None:
    workspace.spec["plan"]["worldSize"] = 2
    result = workspace.build(FAKE_GPUS="\n".join(["NVIDIA A10G, 8.6, 575.57.08"] * 2))
    assert result.code == 9
    assert "without llm/rank1.engine" in result.message
    assert not workspace.engine.exists()


def test_a_text_model_has_no_visual_engine(workspace: Workspace) -> None:
    workspace.spec = workspace.recorded("gpt2-medium-encoders.gpt2-medium")
    add_gpt2_files(workspace.spec)
    result = workspace.build()
    assert result.code == 0, result.lines
    assert not (workspace.engine / "vision").exists()
    assert workspace.tools_run == ["convert", "llm", "check"]


@pytest.mark.parametrize("kind", ["s3", "modelscope"])
def test_weights_come_from_other_sources_too(workspace: Workspace, kind: str) -> None:
    bucket = workspace.folder / "bucket"
    bucket.mkdir()
    for name in ("config.json", "model-00001-of-00002.safetensors"):
        (bucket / name).write_bytes(FILES[name])
    (bucket / "pytorch_model.bin").write_bytes(b"the same numbers in another format")
    workspace.spec = workspace.recorded(f"{kind}.gpt")
    add_gpt2_files(workspace.spec)
    result = workspace.build(FAKE_BUCKET=str(bucket))
    assert result.code == 0, result.lines
    assert not (workspace.weights / "pytorch_model.bin").exists()
    assert workspace.run("verify", str(workspace.weights)).code == 0
    # The AWS CLI is fetched into a folder of this attempt.
    installed = [line for line in workspace.tools_run if line.startswith("pip")]
    assert len(installed) == (1 if kind == "s3" else 0)
    assert all(str(workspace.scratch) in line for line in installed)


def test_weights_in_a_folder_of_the_user_are_read_and_not_changed(workspace: Workspace) -> None:
    own = workspace.folder / "own"
    workspace.spec = workspace.recorded("folder.gpt")
    move_weights(workspace.spec, own)
    result = workspace.build()
    assert result.code == 2
    assert f"{own} has no config.json" in result.message
    own.mkdir()
    for name in ("config.json", "model-00001-of-00002.safetensors"):
        (own / name).write_bytes(FILES[name])
    # As in a clone whose large files were pruned.
    (own / "dangling").symlink_to("nonexistent")
    own.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert workspace.build().code == 0
    manifest = read_manifest(workspace.engine)
    assert manifest is not None
    weights = manifest.record["weights"]
    assert isinstance(weights, dict)
    assert weights["bytes"] == sum(
        len(FILES[name]) for name in ("config.json", "model-00001-of-00002.safetensors")
    )
    assert not (own / "manifest.json").exists()


def test_a_spec_without_an_engine_fetches_weights_alone(workspace: Workspace) -> None:
    workspace.spec = workspace.recorded("weights-alone.chat")
    # No GPU, and none of the image's programs.
    result = workspace.build(PATH="/nonexistent")
    assert result.code == 0, result.lines
    assert result.named("complete")[0]["directory"] == str(workspace.weights)
    assert result.named("complete")[0]["isNew"] is True
    assert workspace.build(HF_ENDPOINT="http://127.0.0.1:1").named("complete")[0]["isNew"] is False


def test_a_wrong_answer_leaves_no_engine(workspace: Workspace) -> None:
    result = workspace.build(FAKE_ANSWER="!!!!!!!!")
    assert result.code == 10
    assert "answers “['!!!!!!!!']” to “What is shown in this picture?”" in result.message
    assert "“coffee” or “espresso” or “cup”" in result.message
    assert not workspace.engine.exists()
    assert workspace.leftovers() == []
    assert workspace.build().code == 0


@pytest.mark.parametrize("tool", ["convert", "llm", "vision", "check"])
def test_a_failed_step_says_why(workspace: Workspace, tool: str) -> None:
    variable = f"FAKE_FAIL_{tool.upper()}"
    result = workspace.build(**{variable: "Unable to load weights"})
    assert result.code == 9
    assert f"exit code 1: {tool}: Unable to load weights" in result.message
    assert not workspace.engine.exists()
    assert workspace.leftovers() == []


def test_a_full_disk_in_a_step_has_an_exit_code_of_its_own(workspace: Workspace) -> None:
    result = workspace.build(FAKE_FAIL_LLM="OSError: [Errno 28] No space left on device")
    assert result.code == 7
    assert "a disk is full" in result.message


def test_a_missing_program_of_the_image_fails_the_build(workspace: Workspace) -> None:
    workspace.spec["plan"]["steps"][1]["argv"][0] = "nonexistent"
    result = workspace.build()
    assert result.code == 9
    assert "nonexistent can't be started: No such file or directory" in result.message


def test_a_flag_that_the_release_does_not_know_fails_the_build(workspace: Workspace) -> None:
    [llm] = [step for step in workspace.spec["plan"]["steps"] if step["name"] == "llm"]
    llm["argv"] += ["--max_output_len", "30"]
    result = workspace.build()
    assert result.code == 9
    assert "unrecognized arguments: --max_output_len 30" in result.message


def test_a_missing_picture_is_reported_before_weights_are_fetched(workspace: Workspace, hub: FakeHub) -> None:
    workspace.spec["plan"]["places"]["goldenImage"] = "/nonexistent/coffee.png"
    result = workspace.build()
    assert result.code == 2
    assert (
        "/nonexistent/coffee.png, which the golden question is about, is not in this image" in result.message
    )
    assert hub.hub.requests == []


def test_sigterm_ends_the_command_and_clears_away(workspace: Workspace) -> None:
    gate = workspace.gate("llm")
    with workspace.started() as running:
        tool = gate.process_id()
        running.terminate()
        result = running.wait()
    assert result.code == 143
    assert result.named("stopped")[0]["signal"] == 15
    assert not is_alive(tool)
    assert gate.was_terminated
    assert workspace.leftovers() == []
    assert not workspace.engine.exists()


def test_a_command_does_not_outlive_a_killed_builder(workspace: Workspace) -> None:
    gate = workspace.gate("llm")
    with workspace.started() as running:
        tool = gate.process_id()
        running.kill()
    wait_until(lambda: not is_alive(tool), "the command ended")
    assert workspace.leftovers() != []
    gate.open()
    assert workspace.build().code == 0
    assert workspace.leftovers() == []


def test_two_builders_at_once_build_one_engine(workspace: Workspace) -> None:
    gate = workspace.gate("convert")
    with workspace.started() as first:
        gate.process_id()
        with workspace.started() as second:
            second.wait_for("waiting")
            gate.open()
            results = [first.wait(), second.wait()]
    assert [result.code for result in results] == [0, 0]
    assert [result.named("complete")[0]["isNew"] for result in results] == [True, False]
    assert workspace.tools_run.count("convert") == 1


def test_a_builder_takes_over_from_one_that_was_killed(workspace: Workspace) -> None:
    gate = workspace.gate("convert")
    with workspace.started() as first:
        gate.process_id()
        with workspace.started() as second:
            second.wait_for("waiting")
            first.kill()
            gate.open()
            result = second.wait()
    assert result.code == 0
    assert result.named("complete")[0]["isNew"] is True
    assert workspace.leftovers() == []


def test_two_engines_of_the_same_weights_fetch_them_once(workspace: Workspace, hub: FakeHub) -> None:
    other = workspace.recorded("llava-1.5.llava")
    text = json.dumps(other).replace(other["plan"]["key"], "f" * 64)
    text = text.replace(other["plan"]["shortKey"], "f" * 12)
    first = workspace.spec
    gate = workspace.gate("convert")
    with workspace.started() as one:
        workspace.spec = json.loads(text)
        with workspace.started() as two:
            gate.process_id()
            gate.open()
            assert [one.wait().code, two.wait().code] == [0, 0]
    assert len(hub.transfers) == len(set(hub.transfers))
    for spec in (first, workspace.spec):
        assert workspace.run("verify", spec["plan"]["directory"]).code == 0


def read_total(folder: Path) -> int:
    manifest = read_manifest(folder)
    assert manifest is not None
    return manifest.total_bytes


def remove_tree(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
    folder.rmdir()


def two_ranks(spec: dict[str, Any]) -> None:
    """As the plan has them with tensorParallel 2."""
    spec["plan"]["worldSize"] = 2
    for step in spec["plan"]["steps"]:
        if step["name"] == "convert":
            step["argv"] += ["--tp_size", "2"]
        if step["name"] == "check":
            step["argv"][:0] = ["mpirun", "-n", "2", "--allow-run-as-root"]


def add_gpt2_files(spec: dict[str, Any]) -> None:
    """The fake hub's files are named as those of a larger model."""
    if spec["weights"]["source"]["kind"] != "s3":
        spec["weights"]["source"] |= {"repository": REPOSITORY, "revision": REVISION}
    patterns = ["*.safetensors", "*.json"]
    for command in spec["weights"]["commands"]:
        if "--include" in command:
            first = command.index("--include")
            command[first:] = [word for pattern in patterns for word in ("--include", pattern)]
    spec["weights"]["include"] = patterns


def move_weights(spec: dict[str, Any], folder: Path) -> None:
    """Weights of a folder are wherever the user has them."""
    old = spec["weights"]["directory"]
    spec["weights"] |= {
        "directory": str(folder),
        "source": {"kind": "folder", "path": str(folder), "revision": "1"},
    }
    for step in spec["plan"]["steps"]:
        step["argv"] = [word.replace(old, str(folder)) for word in step["argv"]]


SERVERS = RECORDED.parent / "server-specs"


def server_spec(workspace: Workspace) -> ServerSpec:
    """The same example's server.json, with the test's store."""
    path = workspace.folder / "server.json"
    text = (SERVERS / "llava-1.5.llava.json").read_text()
    path.write_text(text.replace('"/store/', f'"{workspace.store}/'))
    return read_spec(path)


def test_the_entry_point_accepts_a_built_engine(workspace: Workspace) -> None:
    assert workspace.build().code == 0
    spec = server_spec(workspace)
    assert spec.engine_directory == workspace.engine
    manifest = check_manifest(spec, workspace.engine)
    record = json.loads((workspace.engine / "manifest.json").read_text())
    assert [(file.path, file.bytes, file.sha256) for file in manifest.files] == [
        (file["path"], file["bytes"], file["sha256"]) for file in record["files"]
    ]
    assert "llm/rank0.engine" in {file.path for file in manifest.files}


def test_the_entry_point_refuses_a_truncated_engine(workspace: Workspace) -> None:
    assert workspace.build().code == 0
    (workspace.engine / "llm" / "rank0.engine").write_bytes(b"half")
    with pytest.raises(
        ProgramError, match=r"llm/rank0\.engine has 4 bytes instead of \d+; remove the folder"
    ):
        check_manifest(server_spec(workspace), Path(workspace.engine))


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"FAKE_GPUS": "NVIDIA L4, 8.9, 575.57.08"},
            "GPU 0 is L4 with compute capability 8.9, and the plan is for A10G with 8.6",
        ),
        ({"FAKE_GPUS": ""}, "the container sees no GPU, and 1 × A10G 8.6 is needed"),
        (
            {"FAKE_MIG": "3g.20gb"},
            "the plan is for a whole A10G, and the container sees a part of one, MIG 3g.20gb",
        ),
        ({"FAKE_FAIL_SMI": "1"}, "nvidia-smi failed with exit code 1: NVIDIA-SMI has failed"),
    ],
)
def test_another_gpu_is_refused_before_weights_are_fetched(
    workspace: Workspace, hub: FakeHub, environment: dict[str, str], message: str
) -> None:
    result = workspace.build(**environment)
    assert result.code == 3
    assert message in result.message
    assert hub.hub.requests == []
    assert not workspace.store.exists()


def test_a_container_without_nvidia_smi_is_refused(workspace: Workspace) -> None:
    # Without the folder of nvidia-smi, which Docker's runtime adds.
    path = workspace.environment["PATH"].replace(f"{IMAGE / 'bin'}:", "")
    result = workspace.build(PATH=path)
    assert result.code == 3
    assert "the container has no nvidia-smi; start it with a GPU, such as `--gpus all`" in result.message


def test_fewer_gpus_than_ranks_are_refused(workspace: Workspace) -> None:
    workspace.spec["plan"]["worldSize"] = 2
    result = workspace.build()
    assert result.code == 3
    assert "the container sees 1 × A10G, and 2 ranks are planned" in result.message


def test_a_mig_partition_as_planned_is_accepted(workspace: Workspace) -> None:
    workspace.spec["gpu"] |= {"name": "A100-SXM4-40GB", "computeCapability": "8.0", "migProfile": "3g.20gb"}
    result = workspace.build(FAKE_GPUS="NVIDIA A100-SXM4-40GB, 8.0, 575.57.08", FAKE_MIG="3g.20gb")
    assert result.code == 0, result.lines


def test_another_version_of_tensorrt_llm_is_refused(workspace: Workspace, hub: FakeHub) -> None:
    workspace.install("tensorrt_llm", "0.21.0")
    result = workspace.build()
    assert result.code == 3
    assert "this image has TensorRT-LLM 0.21.0, and the plan is for 0.20.0" in result.message
    assert hub.hub.requests == []
