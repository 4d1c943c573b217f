"""A tower that is another model of the same Triton, asked by business logic scripting.

https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/bls.html
"""

from __future__ import annotations

import triton_python_backend_utils as pb_utils

from .tower import Feeds, Floats, TowerError


class TowerModel:
    """The model `name`, whose tensor `output` has rows of `dimension` numbers."""

    def __init__(self, name: str, output: str, dimension: int) -> None:
        self._name = name
        self._output = output
        self.dimension = dimension

    def warm_up(self, feeds: Feeds) -> None:
        """Nothing: no model may ask another before it serves. A tower's config.pbtxt has a warm-up, and
        Triton is ready when every model is."""

    def run(self, feeds: Feeds) -> Floats:
        """One request with all rows, and the wait for its answer. Raises TowerError with the tower's own
        words.

        Not `async_exec`: on a GPU a call has one run, and on a CPU the tower computes one after the other.
        """
        request = pb_utils.InferenceRequest(
            model_name=self._name,
            requested_output_names=[self._output],
            inputs=[pb_utils.Tensor(name, values) for name, values in feeds.items()],
            # A tower on a GPU would leave its vectors there, where as_numpy can't read them:
            # https://github.com/triton-inference-server/server/issues/3992
            preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0),
        )
        response = request.exec()
        if response.has_error():
            reason = response.error()
            raise TowerError(
                f"the model {self._name}, which computes the vectors, failed: {reason.message()}",
                reason.code(),
            )
        vectors: Floats = pb_utils.get_output_tensor_by_name(response, self._output).as_numpy()
        return vectors
