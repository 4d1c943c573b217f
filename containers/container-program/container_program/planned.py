"""What a plan is for, as every spec and every manifest of a build has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Release:
    """What the image must hold; `tag` is the image's: `25.07`. `tensor_rt` is None where no document names
    it."""

    tag: str
    tensor_rt_llm: str
    tensor_rt: str | None

    @staticmethod
    def of(record: Any) -> Release:
        """From an object that a schema has passed."""
        return Release(record["tag"], record["tensorRtLlm"], record["tensorRt"])

    def record(self) -> dict[str, str | None]:
        """As JSON has it."""
        return {"tag": self.tag, "tensorRtLlm": self.tensor_rt_llm, "tensorRt": self.tensor_rt}


@dataclass(frozen=True)
class Gpu:
    """`A10G`, `8.6`, and a MIG profile such as `3g.20gb`, or None for a whole GPU."""

    name: str
    compute_capability: str
    mig_profile: str | None

    @staticmethod
    def of(record: Any) -> Gpu:
        """From an object that a schema has passed."""
        return Gpu(record["name"], record["computeCapability"], record["migProfile"])

    def record(self) -> dict[str, str | None]:
        """As JSON has it."""
        return {
            "name": self.name,
            "computeCapability": self.compute_capability,
            "migProfile": self.mig_profile,
        }

    def __str__(self) -> str:
        partition = "" if self.mig_profile is None else f" MIG {self.mig_profile}"
        return f"{self.name} {self.compute_capability}{partition}"
