#!/usr/bin/env python3
"""A fake trtexec of TensorRT 10.11.

Takes the flags of samples/common/sampleOptions.cpp of that version that a plan uses, refuses others, loads
the graph, and writes a file in place of the plan. Its arguments go to the file that FAKE_TRTEXEC_LOG names;
FAKE_TRTEXEC_FAIL makes it fail as a builder without memory does.
"""

import json
import os
import re
import sys
from pathlib import Path

import onnx

FLAGS = {"--fp16", "--int8", "--noTF32", "--stronglyTyped", "--skipInference"}
VALUES = {"--onnx", "--saveEngine", "--minShapes", "--optShapes", "--maxShapes", "--memPoolSize"}
SHAPES = re.compile(r"[\w.]+:\d+(x\d+)*(,[\w.]+:\d+(x\d+)*)*")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    words = sys.argv[1:]
    with Path(os.environ["FAKE_TRTEXEC_LOG"]).open("a") as log:
        log.write(json.dumps(sys.argv) + "\n")
    say(f"&&&& RUNNING TensorRT.trtexec [TensorRT v101100] [b33] # {' '.join(sys.argv)}")
    options = dict(word.partition("=")[::2] for word in words)
    unknown = [word for word in words if word not in FLAGS and word.partition("=")[0] not in VALUES]
    if unknown:
        say(f"[E] Unknown option: {unknown[0]}")
        return 1
    if os.environ.get("FAKE_TRTEXEC_FAIL"):
        say("[E] Error[2]: [virtualMemoryBuffer.cpp::resizePhysical] OutOfMemory")
        say("&&&& FAILED TensorRT.trtexec [TensorRT v101100]")
        return 1
    inputs = {value.name for value in onnx.load(options["--onnx"]).graph.input}
    for name in ("--minShapes", "--optShapes", "--maxShapes"):
        shapes = options[name]
        if not SHAPES.fullmatch(shapes) or {one.partition(":")[0] for one in shapes.split(",")} != inputs:
            say(f"[E] {name} {shapes} are not the shapes of {sorted(inputs)}")
            return 1
    Path(options["--saveEngine"]).write_bytes(b"ptrt" + Path(options["--onnx"]).read_bytes()[:64])
    say("&&&& PASSED TensorRT.trtexec [TensorRT v101100]")
    return 0


sys.exit(main())
