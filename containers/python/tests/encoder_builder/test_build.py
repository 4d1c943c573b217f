"""Whole builds: a hub on loopback, small seeded towers, and trtexec's words."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from builder_process import Outcome, Workshop, workshop
from thorough import IS_THOROUGH, drawn, times

from engine_room.encoder_builder import export
from engine_room.triton_entrypoint.manifest import check_manifest
from engine_room.triton_entrypoint.spec import read_spec as read_server_spec

RECORDED_SERVERS = Path(__file__).parents[4] / "test" / "recorded" / "server-specs"
MODELS = ("clip_text", "text_encoder", "vision_encoder")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    with workshop(tmp_path) as one:
        yield one


@dataclass(frozen=True)
class Built:
    """A build that is done, whose folders a test only reads."""

    shop: Workshop
    spec: dict[str, Any]
    outcome: Outcome

    @property
    def directory(self) -> Path:
        return Path(self.spec["plan"]["directory"])

    def copy_to(self, shop: Workshop) -> dict[str, Any]:
        """The same in another store, which a test may change, and the spec of that."""
        shutil.copytree(self.shop.store, shop.store)
        return shop.spec(gpu=self.spec["gpu"] is not None)


@pytest.fixture(scope="module")
def cpu_build(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    yield from one_build(tmp_path_factory.mktemp("cpu"), gpu=False)


@pytest.fixture(scope="module")
def gpu_build(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    yield from one_build(tmp_path_factory.mktemp("gpu"), gpu=True)


def one_build(folder: Path, *, gpu: bool) -> Iterator[Built]:
    with workshop(folder) as shop:
        spec = shop.spec(gpu=gpu)
        outcome = shop.build(spec)
        assert outcome.code == 0, outcome.lines
        yield Built(shop, spec, outcome)


def manifest_of(spec: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads((Path(spec["plan"]["directory"]) / "manifest.json").read_bytes()))


def assert_nothing_half_done(shop: Workshop) -> None:
    assert not list(shop.store.glob("encoders/.*"))


def test_a_build_for_a_cpu_writes_graphs_and_assets(cpu_build: Built) -> None:
    spec, outcome = cpu_build.spec, cpu_build.outcome
    manifest = manifest_of(spec)
    assert (manifest["kind"], manifest["key"], manifest["gpu"]) == ("encoders", spec["plan"]["key"], None)
    steps = {(step["model"], step["step"]): step for step in manifest["steps"]}
    assert set(steps) == {(name, "export") for name in MODELS}
    assert {step["maxError"] for step in steps.values()} == {0}
    # A comparison of nothing has no error, either.
    assert {step["samples"] for step in steps.values()} == {4}
    assert [event["maxError"] for event in outcome.named("checked")] == [
        steps[name, "export"]["maxError"] for name in MODELS
    ]
    assets = {
        "clip_text": "tokenizer.json",
        "text_encoder": "tokenizer.json",
        "vision_encoder": "preprocess.json",
    }
    files = {file["path"]: file for file in manifest["files"]}
    assert set(files) == {
        f"{name}/{file}" for name, asset in assets.items() for file in ("model.onnx", asset)
    }
    for path, file in files.items():
        content = (cpu_build.directory / path).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file["bytes"], file["sha256"])
    assert cpu_build.shop.trtexec_calls() == []
    assert_nothing_half_done(cpu_build.shop)


def test_trtexec_gets_the_words_of_the_plan(gpu_build: Built) -> None:
    spec = gpu_build.spec
    planned = [step["argv"] for model in spec["plan"]["models"] for step in model["steps"][1:]]
    directory = spec["plan"]["directory"]
    calls = gpu_build.shop.trtexec_calls()
    assert [len(call) for call in calls] == [len(argv) for argv in planned]
    # All that differs is the folder of this attempt, which is renamed to the plan's.
    temporary = calls[0][1].removeprefix("--onnx=").rpartition("/clip_text/")[0]
    assert Path(temporary).parent == Path(directory).parent
    assert [[word.replace(temporary, directory) for word in call] for call in calls] == planned
    manifest = manifest_of(spec)
    for step in manifest["steps"]:
        if step["step"] == "calibrate":
            assert step["quantizedNodes"] > 0
            assert step["minCosine"] > 0.9
        if step["step"] == "trtexec":
            assert step["tensorRt"] == "10.11.0"
    assert manifest["builtWith"]["driver"] == "570.133.20"
    server = json.loads((RECORDED_SERVERS / "gpt2-medium-encoders.encoders.json").read_text())
    served = {file for model in server["repository"]["models"] for file in model["files"].values()}
    assert served <= {file["path"] for file in manifest["files"]}


def test_the_entry_point_accepts_built_encoders(gpu_build: Built, tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    text = (RECORDED_SERVERS / "gpt2-medium-encoders.encoders.json").read_text()
    path.write_text(text.replace('"/store/', f'"{gpu_build.shop.store}/'))
    server = read_server_spec(path)
    assert server.engine_directory == gpu_build.directory
    manifest = check_manifest(server, server.engine_directory)
    assert manifest.total_bytes == sum(file["bytes"] for file in manifest_of(gpu_build.spec)["files"])


def test_int8_has_scales_around_zero_for_each_column(gpu_build: Built) -> None:
    for name in MODELS:
        model = onnx.load(gpu_build.directory / name / "model.qdq.onnx")
        constants = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
        quantizers = [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
        assert quantizers
        # TensorRT accepts only symmetric ranges, and reads the weights as floats.
        assert all(not constants[node.input[2]].any() for node in quantizers)
        assert all(constants[node.input[2]].dtype == np.int8 for node in quantizers)
        weights = [node for node in quantizers if node.input[0] in constants]
        assert len(weights) * 2 == len(quantizers)
        assert all(constants[node.input[1]].size > 1 for node in weights)
        # Attention's own products, and the two kinds that are told apart by name.
        kept = {node.input[1] for node in model.graph.node if node.op_type == "MatMul"} & set(constants)
        assert {weight.rpartition(".")[0].rpartition(".")[2] for weight in kept} <= {"down", "projection"}


def test_int8_of_a_half_precision_graph_has_scales_in_half_precision(shop: Workshop) -> None:
    # Releases whose TensorRT has only strong types: the graph sets the format of tensors outside of int8.
    spec = json.loads(json.dumps(shop.spec(gpu=True)).replace("--data-type=float32", "--data-type=float16"))
    outcome = shop.build(spec)
    assert outcome.code == 0, outcome.lines
    calibrated = [step for step in manifest_of(spec)["steps"] if step["step"] == "calibrate"]
    assert [step["minCosine"] > 0.9 for step in calibrated] == [True] * 3
    model = onnx.load(Path(spec["plan"]["directory"]) / "text_encoder" / "model.qdq.onnx")
    types = {one.name: one.data_type for one in model.graph.initializer}
    scales = {types[node.input[1]] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    assert scales == {onnx.TensorProto.FLOAT16}


@pytest.mark.parametrize("name", MODELS)
def test_a_graph_takes_any_batch_and_length(cpu_build: Built, name: str) -> None:
    session = onnxruntime.InferenceSession(cpu_build.directory / name / "model.onnx")
    random = np.random.RandomState(0)
    if name == "vision_encoder":
        feeds: dict[str, npt.NDArray[Any]] = {
            "pixel_values": random.standard_normal((7, 3, 24, 24)).astype(np.float32)
        }
    else:
        mask = (np.arange(77) < np.array([77, 1, 20, 3, 50, 2, 9])[:, None]).astype(np.int32)
        feeds = {
            "input_ids": random.randint(0, 100, mask.shape).astype(np.int32) * mask,
            "attention_mask": mask,
        }
    together = session.run(None, feeds)[0]
    assert len(together) == 7
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    for row, vector in enumerate(together):
        # Padding is cut off, if there is some.
        length = int(feeds["attention_mask"][row].sum()) if "attention_mask" in feeds else None
        alone = {key: values[row : row + 1, :length] for key, values in feeds.items()}
        np.testing.assert_allclose(session.run(None, alone)[0][0], vector, atol=1e-5)


def test_a_half_precision_graph_has_inputs_and_output_in_single_precision(shop: Workshop) -> None:
    spec = json.loads(json.dumps(shop.spec(gpu=False)).replace("--data-type=float32", "--data-type=float16"))
    outcome = shop.build(spec)
    assert outcome.code == 0, outcome.lines
    for step in manifest_of(spec)["steps"]:
        # More than a float32 graph has: it is half precision that was computed in.
        assert 1e-6 < step["maxError"] < 5e-3
    model = onnx.load(Path(spec["plan"]["directory"]) / "vision_encoder" / "model.onnx")
    for value in (*model.graph.input, *model.graph.output):
        assert value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT


def test_a_graph_that_computes_something_else_is_not_kept(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "to_half_precision", without_last_division)
    spec = json.loads(json.dumps(shop.spec(gpu=False)).replace("--data-type=float32", "--data-type=float16"))
    outcome = shop.build(spec)
    assert outcome.code == 10
    assert re.search("gives vectors whose lengths differ by up to .* from 1", outcome.lines)
    assert not Path(spec["plan"]["directory"]).exists()


def without_last_division(model: onnx.ModelProto) -> onnx.ModelProto:
    """A graph whose vectors don't have length 1."""
    last = next(node for node in reversed(model.graph.node) if node.op_type == "Div")
    model.graph.node[-1].input[0] = last.input[0]
    return model


def test_complete_encoders_are_not_built_again(gpu_build: Built, shop: Workshop) -> None:
    spec = gpu_build.copy_to(shop)
    # Complete encoders need no GPU.
    again = shop.build(spec, FAKE_GPU="")
    assert (again.code, [event["event"] for event in again.events]) == (0, ["complete"])
    assert again.events[0]["isNew"] is False
    assert (shop.trtexec_calls(), shop.hub.hub.requests) == ([], [])


def test_a_truncated_file_is_built_again_from_the_weights_in_the_store(
    cpu_build: Built, shop: Workshop
) -> None:
    spec = cpu_build.copy_to(shop)
    graph = Path(spec["plan"]["directory"]) / "clip_text" / "model.onnx"
    whole = graph.read_bytes()
    graph.write_bytes(whole[:-1])
    assert shop.build(spec).code == 0
    # The same bytes from the same weights.
    assert graph.read_bytes() == whole
    assert shop.hub.hub.requests == []
    assert_nothing_half_done(shop)


def test_two_builders_build_once(shop: Workshop) -> None:
    spec = shop.spec(gpu=True)
    with shop.start(spec) as first, shop.start(spec) as second:
        outputs = [one.communicate(timeout=120)[0] for one in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0)
    new = [json.loads(output.splitlines()[-1])["isNew"] for output in outputs]
    assert sorted(new) == [False, True]
    assert len(shop.trtexec_calls()) == 3


EVENTS, SIGNALS = ("weights-fetched", "checked", "step-finished"), (signal.SIGKILL, signal.SIGTERM)
# Leftovers of a stop differ more by the signal than by the moment.
STOPS = {(SIGNALS[0], EVENTS[0]), (SIGNALS[1], EVENTS[1]), (SIGNALS[0], EVENTS[2])}


@pytest.mark.parametrize(
    ("number", "event"),
    [(number, event) for number in SIGNALS for event in EVENTS if IS_THOROUGH or (number, event) in STOPS],
)
def test_a_stopped_build_is_completed_by_the_next(shop: Workshop, number: signal.Signals, event: str) -> None:
    spec = shop.spec(gpu=True)
    with shop.start(spec) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["event"] == event:
                process.send_signal(number)
                break
        process.communicate(timeout=120)
    assert process.returncode == (-9 if number == signal.SIGKILL else 143)
    assert not Path(spec["plan"]["directory"]).exists()
    if number == signal.SIGTERM:
        assert_nothing_half_done(shop)
    outcome = shop.build(spec)
    assert outcome.code == 0, outcome.lines
    assert manifest_of(spec)["key"] == spec["plan"]["key"]
    assert_nothing_half_done(shop)


def test_kills_at_random_moments_leave_nothing_half_done(shop: Workshop) -> None:
    # At night with calibration and trtexec, whose imports take most of a build's time.
    spec, random, rounds = shop.spec(gpu=IS_THOROUGH), drawn(), times(5, 50)
    directory = Path(spec["plan"]["directory"])
    with shop.start(spec) as process:
        assert process.stdout is not None
        process.stdout.readline()
        began = time.monotonic()
        process.communicate(timeout=120)
    assert process.returncode == 0
    # After the first event; before it, nothing is written.
    seconds = time.monotonic() - began
    killed = 0
    for round_ in range(rounds):
        shutil.rmtree(directory, ignore_errors=True)
        with shop.start(spec) as process:
            assert process.stdout is not None
            process.stdout.readline()
            # The first at once, the others in a part of their own of the time that a build took.
            time.sleep(0 if round_ == 0 else seconds * (round_ - 1 + random.random()) / (rounds - 1))
            process.kill()
            process.communicate(timeout=120)
        killed += not directory.exists()
        if directory.exists():
            manifest = manifest_of(spec)
            assert all(
                (directory / file["path"]).stat().st_size == file["bytes"] for file in manifest["files"]
            )
    # Otherwise every build was done before its kill.
    assert killed > 0
    assert shop.build(spec).code == 0
    assert_nothing_half_done(shop)


@pytest.mark.parametrize(
    ("environment", "code", "reason"),
    [
        ({"FAKE_GPU": "NVIDIA L4, 8.9, 570.133.20"}, 3, "GPU 0 is L4 with compute capability 8.9"),
        ({"FAKE_GPU": ""}, 3, "the container sees no GPU"),
        ({"NVIDIA_TRITON_SERVER_VERSION": "25.08"}, 3, "this is the image of release 25.08"),
        ({"FAKE_TRTEXEC_FAIL": "1"}, 9, "ended with exit code 1: .*OutOfMemory"),
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, 5, "can't be reached"),
    ],
)
def test_a_failed_build_says_why(shop: Workshop, environment: dict[str, str], code: int, reason: str) -> None:
    spec = shop.spec(gpu=True)
    outcome = shop.build(spec, **environment)
    assert outcome.code == code, outcome.lines
    failed = outcome.events[-1]
    assert (failed["event"], failed["exitCode"]) == ("failed", code)
    assert re.search(reason, failed["message"])
    assert not Path(spec["plan"]["directory"]).exists()
    assert_nothing_half_done(shop)


def test_a_file_with_a_wrong_hash_is_not_kept(shop: Workshop) -> None:
    spec = shop.spec(gpu=False)
    shop.files["openai/clip-vit-base-patch32"]["tokenizer.json"] += b" "
    outcome = shop.build(spec)
    assert (outcome.code, outcome.events[-1]["event"]) == (6, "failed")
    assert "tokenizer.json has the sha-256 " in outcome.events[-1]["message"]
    assert not list(shop.store.rglob("tokenizer.json"))


def test_a_file_that_the_hub_lacks_fails_the_build_at_once(shop: Workshop) -> None:
    spec = shop.spec(gpu=False)
    del shop.files["openai/clip-vit-base-patch32"]["config.json"]
    outcome = shop.build(spec)
    assert outcome.code == 4
    assert "clip-vit-base-patch32 has no config.json at" in outcome.events[-1]["message"]


def test_a_damaged_weight_in_the_store_is_fetched_again(cpu_build: Built, shop: Workshop) -> None:
    spec = cpu_build.copy_to(shop)
    place = next(shop.store.glob("weights/all-MiniLM-L6-v2/*/model.safetensors"))
    place.write_bytes(place.read_bytes()[:-4] + b"\0\0\0\0")
    (Path(spec["plan"]["directory"]) / "manifest.json").unlink()
    outcome = shop.build(spec)
    assert (outcome.code, len(outcome.named("weights-damaged"))) == (0, 1)
    assert shop.hub.transfers == ["model.safetensors"]


def test_models_of_one_repository_share_a_folder(cpu_build: Built) -> None:
    shop = cpu_build.shop
    [manifest] = shop.store.glob("weights/clip-vit-base-patch32/*/manifest.json")
    paths = [file["path"] for file in json.loads(manifest.read_text())["files"]]
    # Those of the text tower and those of the vision tower.
    assert paths == ["config.json", "model.safetensors", "tokenizer.json"]
    assert sorted(shop.hub.transfers) == ["model.safetensors", "model.safetensors"]
    # The store's collector keeps weights by this field.
    built = manifest_of(cpu_build.spec)
    assert str(manifest.parent) in {step["weights"]["directory"] for step in built["steps"]}
