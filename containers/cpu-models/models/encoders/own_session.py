"""A tower in this process: its graph, run by ONNX Runtime on the CPU."""

from __future__ import annotations

from pathlib import Path

import onnxruntime

from .tower import Feeds, Floats


class OwnSession:
    """`threads`: maximum cores of a run."""

    def __init__(self, graph: Path, output: str, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # A thread that spins while it waits takes a core from the server and the other models.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(
            graph, sess_options=options, providers=["CPUExecutionProvider"]
        )
        self._output = output
        self.dimension = int(self._session.get_outputs()[0].shape[1])

    def warm_up(self, feeds: Feeds) -> None:
        """The first run plans the session's memory, which no request should pay for."""
        self.run(feeds)

    def run(self, feeds: Feeds) -> Floats:
        """Runs on this process's threads."""
        vectors: Floats = self._session.run([self._output], dict(feeds))[0]
        return vectors
