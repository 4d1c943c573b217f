"""Triton Python model `multimodal_encoders`, for templates that answer each picture in place of each request,
and for several pictures of LLaVA-OneVision.

The template's `model.py` is beside this one as `template_model.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from .template_model import TritonPythonModel as TemplateModel


class TritonPythonModel(TemplateModel):  # type: ignore[misc]
    """Passes the features of one request at a time to the template, as those of one picture."""

    def initialize(self, args: dict[str, str]) -> None:
        """LLaVA-OneVision's features become tables in a part of the template of its own."""
        super().initialize(args)
        # Only the first process of several has it.
        self._onevision = getattr(self, "llava_onevision_utils", None)
        if self._onevision is not None:
            self._onevision.postprocess_image = partial(_table, self._onevision.postprocess_image)

    def postprocess_output_tensors(
        self,
        output_tensor: Any,
        requests: Sequence[Any],
        batch_sizes: Sequence[int],
        num_images: Sequence[int],
        *others: Any,
    ) -> list[Any]:
        """One response a request, in order. `output_tensor`: [all requests' pictures, tokens, hidden size]"""
        process = super().postprocess_output_tensors
        if self._onevision is not None:
            return list(process(output_tensor, requests, batch_sizes, num_images, *others))
        responses: list[Any] = []
        end = 0
        for request, prompts, pictures in zip(requests, batch_sizes, num_images, strict=True):
            start, end = end, end + prompts * pictures
            features = output_tensor[start:end]
            one = features.reshape(1, -1, features.shape[-1])
            # With more than one picture the template lays the features out by prompts.
            responses += process(one, [request], [prompts], [max(pictures, 2)], *others)
        return responses


def _table(template: Any, features: Any, sizes: Any, tiles: Sequence[int]) -> Any:
    """[prompts, tokens, hidden size] of `features` [tiles, tokens, hidden size]. The size of a picture tells
    how many tiles it has; with another number each tile is a picture."""
    if len(features) == sum(tiles):
        return template(features, sizes, tiles)
    tables = template(features, sizes, [1] * len(features))
    return tables.reshape(len(sizes), -1, tables.shape[-1])
