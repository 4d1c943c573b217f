"""Programs that compute a tower: onnxruntime and torch, on the CPU and on a GPU, in several precisions."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from towers import Tower

from engine_room.cpu_models.onnx_graph import OnnxGraph
from engine_room.encoder_builder.graphs import to_half_precision
from engine_room.encoder_builder.samples import Feeds

Rows = npt.NDArray[np.float32]
# tf32: float32 whose products keep ten bits of each factor, the default of TensorRT and of onnxruntime.
Precision = Literal["float32", "tf32", "float16"]

_CUDA = "CUDAExecutionProvider"
_ERRORS_ALONE = 3


@dataclass(frozen=True)
class Runner:
    """`run` takes arrays in host memory and returns when the vectors are in host memory, too."""

    program: Literal["onnxruntime", "torch"]
    device: Literal["cpu", "gpu"]
    precision: Precision
    run: Callable[[Feeds], Rows]

    @property
    def name(self) -> str:
        return f"{self.program} {self.device} {self.precision}"


@dataclass(frozen=True)
class Available:
    """Programs that this machine can run, and the reasons why it can't run the others."""

    torch: bool
    torch_gpu: str | None
    onnxruntime_gpu: bool
    missing: tuple[str, ...]


def look_around() -> Available:
    """Imports torch first, which loads the CUDA libraries that onnxruntime needs."""
    missing = []
    gpu = None
    has_torch = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
    if has_torch:
        import torch

        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
        if gpu is None:
            missing.append("no GPU is visible to torch: only the CPU is measured")
    else:
        missing.append("torch or transformers is not installed: the source is the 64-bit reference alone")
    has_cuda = gpu is not None and _cuda_provider_loads()
    if not has_cuda:
        missing.append(f"this onnxruntime has no {_CUDA} that loads here: no graph is run on a GPU")
    missing.append("TensorRT's plans are not measured: trtexec is in NVIDIA's image")
    return Available(has_torch, gpu, has_cuda, tuple(missing))


def runners(tower: Tower, available: Available) -> list[Runner]:
    """Returns all programs, those of the CPU first."""
    found = [_graph_runner(tower, "cpu", "float32"), _graph_runner(tower, "cpu", "float16")]
    if available.torch:
        found.append(_torch_runner(tower, "cpu", "float32"))
    precisions: tuple[Precision, ...] = ("float32", "tf32", "float16")
    if available.onnxruntime_gpu:
        found += [_graph_runner(tower, "gpu", precision) for precision in precisions]
    if available.torch_gpu is not None:
        found += [_torch_runner(tower, "gpu", precision) for precision in precisions]
    return found


def _graph_runner(tower: Tower, device: Literal["cpu", "gpu"], precision: Precision) -> Runner:
    graph = tower.graph
    if precision == "float16":
        half = to_half_precision(onnx.load_model_from_string(graph))
        _drop_repeated_nodes(half)
        graph = half.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ERRORS_ALONE
    cuda = (_CUDA, {"use_tf32": "1" if precision == "tf32" else "0"})
    providers = [cuda] if device == "gpu" else []
    session = onnxruntime.InferenceSession(
        graph, sess_options=options, providers=[*providers, "CPUExecutionProvider"]
    )
    return Runner("onnxruntime", device, precision, lambda feeds: np.asarray(session.run(None, feeds)[0]))


def _cuda_provider_loads() -> bool:
    """Tries a session, which runs without the provider when its libraries are missing."""
    if _CUDA not in onnxruntime.get_available_providers():
        return False
    graph = OnnxGraph("probe")
    graph.output_float32(graph.input_float32("value", (1,)), "same", (1,))
    session = onnxruntime.InferenceSession(graph.serialise(), providers=[_CUDA, "CPUExecutionProvider"])
    return _CUDA in session.get_providers()


def _drop_repeated_nodes(model: onnx.ModelProto) -> None:
    """onnxruntime 1.30's converter writes a cast of the same name for each reader; the locked 1.23 writes one
    cast."""
    unique = {node.name: node for node in reversed(model.graph.node)}
    kept = [node for node in model.graph.node if unique[node.name] is node]
    del model.graph.node[:]
    model.graph.node.extend(kept)


def _torch_runner(tower: Tower, device: Literal["cpu", "gpu"], precision: Precision) -> Runner:
    import torch

    module, vectors = tower.torch_model()
    half = precision == "float16"
    place = torch.device("cuda" if device == "gpu" else "cpu")
    module = module.to(place, torch.float16 if half else torch.float32)

    def moved(array: npt.NDArray[np.generic]) -> Any:
        tensor = torch.from_numpy(array).to(place)
        return tensor.half() if half and tensor.is_floating_point() else tensor

    def run(feeds: Feeds) -> Rows:
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        with torch.inference_mode():
            # The copy to the host waits for the GPU.
            answer = vectors(module, {name: moved(array) for name, array in feeds.items()}).cpu()
        return np.asarray(answer.numpy())

    return Runner("torch", device, precision, run)
