"""Workload: the sequences that are trained in a step, independent of the hardware."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from lcplan.formats.frozen import Frozen
from lcplan.formats.units import format_tokens
from lcplan.spec.workload_facts import WorkloadFacts

_OF_ROLLOUTS = ("prompt", "generate", "batch", "kv_dtype", "temperature", "no_donate")
DEFAULT_TOKENS_PER_STEP = 4 * 2**20
"""Fewest tokens per step where the request gives no global batch: 4 Mi, the order of published long-context runs."""
DEFAULT_TOKENS_PER_DEVICE = 16 * 2**10
"""Tokens per step and device on more than 256 devices, where the request gives no global batch: as many as 4 Mi on 256, so that
a larger cluster has more sequences to share, not fewer tokens per device."""


class Workload(Frozen):
    """One training step: ``global_batch`` sequences of ``seq_len`` tokens, causal attention over each or its documents."""

    facts: ClassVar[WorkloadFacts] = WorkloadFacts(
        label="a train step",
        unit="step",
        options=("seq", "global_batch", "document_len", "trainer"),
        needs=("seq",),
        example="--seq 64k",
        instead=dict.fromkeys(
            (*_OF_ROLLOUTS, "old_log_probs", "kl_coefficient", "rollout_mesh"),
            "has no such option",
        ),
        sizes=("seq_len",),
        batch_field="global_batch",
        trained=True,
    )

    kind: Literal["train"] = "train"
    seq_len: Annotated[int, Field(gt=0, le=2**40)]
    global_batch: Annotated[int, Field(gt=0, le=2**40)]
    document_len: Annotated[int, Field(gt=0, le=2**40)] | None = None
    """Tokens of each document packed into a sequence. A document attends only to itself; None, or more
    than ``seq_len``: a sequence is one document."""
    precision: Literal["bf16", "fp32"] = "bf16"
    global_batch_given: bool = True
    """False where lcplan chose the batch (the output states it)."""

    def resized(self, *, seq_len: int | None = None, global_batch: int | None = None, given: bool | None = None) -> Workload:
        """The same at another length [tokens] or batch [sequences]; ``given``: whether somebody asked for that batch."""
        changed = {"seq_len": seq_len, "global_batch": global_batch, "global_batch_given": given}
        return self.model_copy(update={name: value for name, value in changed.items() if value is not None})

    @staticmethod
    def fields_of(options: Mapping[str, Any], default_batch: Callable[[int], int]) -> dict[str, Any]:
        """Fields from command line options; ``default_batch`` gives the sequences of a step at a length [tokens]."""
        length, batch = options["seq"], options["global_batch"]
        sizes = {"seq_len": length, "global_batch": batch or default_batch(length)}
        return sizes | {"document_len": options["document_len"], "global_batch_given": batch is not None}

    @property
    def tokens(self) -> int:
        """Tokens per step."""
        return self.seq_len * self.global_batch

    @property
    def train(self) -> Workload:
        """The train step of the workload: all of it."""
        return self

    @property
    def sample(self) -> None:
        """The rollout of the workload: a train step has no rollout."""
        return None

    @property
    def description(self) -> str:
        """The sizes in one line of a report: ``16 x 256k tokens per step``."""
        chosen = "" if self.global_batch_given else " (lcplan's choice; --global-batch changes it)"
        packed = "" if self.document_len is None else f" in documents of {format_tokens(self.document_len)}"
        return f"{self.global_batch} x {format_tokens(self.seq_len)} tokens per step{packed}{chosen}"
