"""Measures the exported encoders on a machine with an NVIDIA GPU, with or without TensorRT: differences of
their graphs from their sources, and throughput of the GPU against the CPU.

`python encoders_on_gpu.py [--minilm DIR] [--out FILE]`, with containers/python and its tests on PYTHONPATH.
DIR has all-MiniLM-L6-v2's `model.safetensors`, `config.json`, `sentence_bert_config.json` and
`tokenizer.json`; without it, only CLIP's towers are measured, which have seeded weights of full size.

A difference is the largest of a number of a unit vector, in four rows. Throughput is from arrays in host
memory to vectors in host memory: every program has its turn in each round, and a ratio is that of one round.
Programs that the machine lacks are reported and skipped. Exits with 1 if a difference is larger than
`LARGEST_ERROR`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from runners import Available, Precision, Runner, look_around, runners
from towers import Tower, clip_text, clip_vision, sentence_encoder

from engine_room.encoder_builder.samples import Feeds

BATCHES = (1, 8, 32)
ROUNDS = 5
TURN_SECONDS = 0.25
CHECKED_ROWS = 4
# An export is refused above the same limits; tf32 has the bits of float16.
LARGEST_ERROR: dict[Precision, float] = {"float32": 1e-4, "tf32": 5e-3, "float16": 5e-3}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures the encoders on a GPU against the CPU.")
    parser.add_argument("--minilm", type=Path, help="folder with all-MiniLM-L6-v2's files")
    parser.add_argument("--out", type=Path, help="the figures as JSON, in addition to standard output")
    options = parser.parse_args()
    available = look_around()
    with tempfile.TemporaryDirectory() as folder:
        towers = [clip_vision(Path(folder)), clip_text()]
    if options.minilm is not None:
        towers.insert(0, sentence_encoder(options.minilm))
    figures: dict[str, Any] = {"machine": _machine(available), "missing": available.missing, "towers": []}
    for line in available.missing:
        _say(line)
    for tower in towers:
        programs = runners(tower, available)
        measured = {
            "name": tower.name,
            "weights": tower.weights,
            "differences": _differences(tower, programs),
            "throughput": [_throughput(tower, programs, rows) for rows in BATCHES],
        }
        _show(tower, measured)
        figures["towers"].append(measured)
    text = json.dumps(figures)
    sys.stdout.write(f"{text}\n")
    if options.out is not None:
        options.out.write_text(f"{text}\n")
    wrong = [one for tower in figures["towers"] for one in tower["differences"] if not one["within"]]
    return 1 if wrong else 0


def _machine(available: Available) -> dict[str, object]:
    versions = {"python": platform.python_version(), "onnxruntime": onnxruntime.__version__}
    if available.torch:
        import torch
        import transformers

        versions |= {"torch": torch.__version__, "transformers": transformers.__version__}
    return {"gpu": available.torch_gpu, "cores": len(os.sched_getaffinity(0)), "versions": versions}


def _differences(tower: Tower, programs: list[Runner]) -> list[dict[str, object]]:
    """Differences of every program from the source in 64 bits, and of programs on the GPU from the same graph
    or module in float32 on the CPU."""
    feeds = tower.feeds(CHECKED_ROWS)
    source = tower.source(feeds)
    answers = {program.name: program.run(feeds) for program in programs}
    found: list[dict[str, object]] = []
    for program in programs:
        answer = answers[program.name]
        error = float(np.abs(answer - source).max())
        on_cpu = answers[f"{program.program} cpu float32"]
        found.append(
            {
                "program": program.name,
                "fromSource": error,
                "fromCpuFloat32": float(np.abs(answer - on_cpu).max()),
                # Written so that NaN is not within.
                "within": error <= LARGEST_ERROR[program.precision],
            }
        )
    return found


def _throughput(tower: Tower, programs: list[Runner], rows: int) -> dict[str, object]:
    """Leaves out half precision on a CPU, which is not used for serving."""
    feeds = tower.feeds(rows)
    timed = [one for one in programs if one.device == "gpu" or one.precision == "float32"]
    rounds = [{one.name: _turn(one, feeds) * rows for one in timed} for _ in range(ROUNDS)]
    medians = {one.name: statistics.median(turn[one.name] for turn in rounds) for one in timed}
    ratios = {
        one.name: statistics.median(turn[one.name] / turn[f"{one.program} cpu float32"] for turn in rounds)
        for one in timed
        if one.device == "gpu"
    }
    return {"batch": rows, "unit": f"{tower.unit}/s", "perSecond": medians, "ratioToCpu": ratios}


def _turn(program: Runner, feeds: Feeds) -> float:
    """Calls a second, after one that warms up; a call has ended when its vectors are in host memory."""
    program.run(feeds)
    calls, started = 0, time.perf_counter()
    while (seconds := time.perf_counter() - started) < TURN_SECONDS:
        program.run(feeds)
        calls += 1
    return calls / seconds


def _show(tower: Tower, measured: dict[str, Any]) -> None:
    _say(f"\n{tower.name}, weights {tower.weights}")
    _say(f"{'':28} from source  from CPU float32  within")
    for one in measured["differences"]:
        _say(
            f"{one['program']:28} {one['fromSource']:11.1e} {one['fromCpuFloat32']:17.1e}  "
            f"{'yes' if one['within'] else 'NO'}"
        )
    _say(f"{tower.unit + '/s, batch of':28} " + " ".join(f"{rows:>16}" for rows in BATCHES))
    for name in measured["throughput"][0]["perSecond"]:
        cells = []
        for one in measured["throughput"]:
            ratio = one["ratioToCpu"].get(name)
            cells.append(f"{one['perSecond'][name]:.0f}" + ("" if ratio is None else f" (×{ratio:.1f})"))
        _say(f"{name:28} " + " ".join(f"{cell:>16}" for cell in cells))


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
