"""A torchtitan configuration in either of its formats, and its models by flavor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from lcplan.spec.model import ModelSpec
from planner.trainers.common.imported import catalogue_model, nested, with_changes

CATALOGUE: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("llama3", "1B"): "llama3.2-1b",
        ("llama3", "3B"): "llama3.2-3b",
        ("llama3", "8B"): "llama3.1-8b",
        ("llama3", "70B"): "llama3.1-70b",
        ("llama3", "405B"): "llama3.1-405b",
        ("qwen3", "0.6B"): "qwen3-0.6b",
        ("qwen3", "1.7B"): "qwen3-1.7b",
        ("qwen3", "4B"): "qwen3-4b",
        ("qwen3", "8B"): "qwen3-8b",
        ("qwen3", "14B"): "qwen3-14b",
        ("qwen3", "32B"): "qwen3-32b",
        ("qwen3", "30B-A3B"): "qwen3-30b-a3b",
        ("qwen3", "235B-A22B"): "qwen3-235b-a22b",
    }
)
"""The catalogue's model of each of torchtitan's (package, flavor)."""


@dataclass(frozen=True)
class Sections:
    """The sections that are read, by torchtitan's own names, and settings that each format has in its own way."""

    training: Mapping[str, Any]
    parallelism: Mapping[str, Any]
    model: ModelSpec | None = None
    scheme: str = "all-gather"
    remat: str | None = None
    loss_chunks: Any = None
    attention: str | None = None
    """``attn_backend`` of its model registry."""
    compiled: bool = False
    """Whether torch.compile fuses the operations between products."""
    graphs: bool = False
    """Whether its version replays the step as CUDA graphs unless ``disable_cuda_graphs`` is set, as from 0.3 on."""
    selective: bool = False
    """Whether checkpointing is its selective one, by operations."""
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def settings(self) -> dict[str, Any]:
        """Return the values by key, with the section before a dot; ``activation_checkpoint`` is a policy of lcplan's."""
        found = {f"training.{key}": value for key, value in self.training.items()}
        found |= {f"parallelism.{key}": value for key, value in self.parallelism.items()}
        own = {"activation_checkpoint": self.remat, "loss.num_chunks": self.loss_chunks, "compile.enable": self.compiled}
        return found | {key: value for key, value in own.items() if value is not None}

    def changed(self, changes: Mapping[str, Any]) -> Sections:
        """Return the sections with some settings changed (``settings``); None: without the setting."""
        sections = nested(with_changes(self.settings, changes))
        return replace(
            self,
            training=sections.get("training", {}),
            parallelism=sections.get("parallelism", {}),
            loss_chunks=sections.get("loss", {}).get("num_chunks"),
            compiled=sections.get("compile", {}).get("enable") is True,
            remat=sections.get("activation_checkpoint"),
            selective=self.selective and "activation_checkpoint" not in changes,
        )


def flavored(package: str, flavor: str) -> ModelSpec | None:
    """The catalogue's model of a flavor."""
    name = CATALOGUE.get((package, flavor))
    return catalogue_model(name) if name else None
