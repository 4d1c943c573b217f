"""Triton Python model `multimodal_encoders`, for templates that answer each picture in place of each request.

The template's `model.py` is beside this one as `template_model.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .template_model import TritonPythonModel as TemplateModel


class TritonPythonModel(TemplateModel):  # type: ignore[misc]
    """Passes the features of one request at a time to the template, as those of one picture."""

    def postprocess_output_tensors(
        self,
        output_tensor: Any,
        requests: Sequence[Any],
        batch_sizes: Sequence[int],
        num_images: Sequence[int],
        *others: Any,
    ) -> list[Any]:
        """One response a request, in order. `output_tensor`: [all requests' pictures, tokens, hidden size]"""
        responses: list[Any] = []
        end = 0
        for request, prompts, pictures in zip(requests, batch_sizes, num_images, strict=True):
            start, end = end, end + prompts * pictures
            features = output_tensor[start:end]
            one = features.reshape(1, -1, features.shape[-1])
            # With more than one picture the template lays the features out by prompts.
            responses += super().postprocess_output_tensors(
                one, [request], [prompts], [max(pictures, 2)], *others
            )
        return responses
