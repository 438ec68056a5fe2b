"""DeepSpeed's ZeRO: the state that each stage splits, the state in the host's memory, and invalid combinations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cost_models.inputs.program import Program
from lcplan.formats.errors import BadInputError
from planner.trainers import Difference, Job
from planner.trainers.common.offload import in_host_memory
from planner.trainers.common.programs import TRANSFORMERS

STAGES = {0: "nothing", 1: "the optimizer's state", 2: "the optimizer's state and gradients", 3: "everything"}
BUCKET_ELEMENTS = 5e8
"""Default size of each kind of bucket (deepspeed.ai/docs/config-json, ``reduce_bucket_size``)."""
MOST_BUCKET_BYTES = 1e12
"""Above any device's memory."""
OVERLAP = 4.5
"""Buckets of each kind that are alive where communication overlaps (``cost_models.inputs.program.DEEPSPEED_BUCKET_BYTES``)."""


def stage_of(value: Any, name: str, *, file: str) -> int:
    """Read a stage from the key ``name``.

    Raises
    ------
    BadInputError
        There is no such stage.
    """
    if isinstance(value, bool | dict | list) or value not in STAGES:
        raise BadInputError(f"{file}: {name} {value!r:.60} is not a stage; use 0, 1, 2 or 3")
    return int(value)


@dataclass(frozen=True)
class Zero:
    """One ``zero_optimization`` section of any file."""

    stage: int
    section: Mapping[str, Any]
    """Its own keys: buckets, ``overlap_comm``, .."""
    offloaded: Mapping[str, str]
    """The device of ``offload_optimizer`` and ``offload_param``: none, cpu or nvme."""
    state_bytes: float = 16.0
    """Bytes per parameter of stage 3's whole state: 12 with masters and gradients in bf16, 8 with moments in bf16 too."""

    @property
    def whole_weights(self) -> bool:
        """Whether every rank holds the weights whole."""
        return self.stage in (1, 2)

    @property
    def waives(self) -> tuple[str, ...]:
        """Rules of stage 3 only."""
        return ("deepspeed-tensor-zero",) if self.stage < 3 else ()

    @property
    def program(self) -> Program:
        """Return the priced step: a Transformers model under ZeRO."""
        changes: dict[str, Any] = {"loss": "chunked", "bucket_bytes": self._bucket_bytes if self.stage else 0.0}
        if self.whole_weights:
            changes |= {"weights_over": "fsdp", "optimizer_over": "data", "compute_copy": True}
            changes["gradients_over"] = "optimizer" if self.stage == 2 else "weights"
        return TRANSFORMERS.model_copy(update=changes)

    @property
    def _bucket_bytes(self) -> float:
        """Return the bf16 buckets: gradients, and below stage 3, which gathers one layer at a time, weights."""
        names = ("reduce_bucket_size", *("allgather_bucket_size",) * (self.stage < 3))
        sizes = [self.section.get(name, BUCKET_ELEMENTS) for name in names]
        elements = sum(float(size) for size in sizes if isinstance(size, int | float))  # auto is of a layer's size
        overlaps = self.section.get("overlap_comm", self.stage == 3) is True
        return min(2.0 * elements * (OVERLAP if overlaps else 1.0), MOST_BUCKET_BYTES)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes about the stage."""
        if self.whole_weights:
            return (f"ZeRO-{self.stage} splits {STAGES[self.stage]}: parameters are whole in bf16 on every rank",)
        return ("ZeRO-0 splits nothing: every rank holds all of the state",) if self.stage == 0 else ()

    def differences(self, job: Job) -> list[Difference]:
        """List the state that is whole or in the host's memory, for a job priced as ZeRO-3 on the device."""
        return [*self._whole(job), *self._secondary(job), *self._offload(job)]

    def _secondary(self, job: Job) -> list[Difference]:
        """ZeRO++ keeps a second bf16 shard of the weights within a group, which the backward pass gathers from."""
        group = self.section.get("zero_hpz_partition_size", 1)
        if self.stage != 3 or not isinstance(group, int) or group <= 1:
            return []
        return [
            Difference(
                name="secondary-shard",
                plan="weights over all ranks that share the state",
                trainer=f"a second bf16 shard over {group} ranks",
                why=f"zero_hpz_partition_size={group} (deepspeed.ai/tutorials/zeropp)",
                extra_bytes=round(2 * job.model.parameters / (group * job.strategy.mesh.tensor)),
            )
        ]

    def _whole(self, job: Job) -> list[Difference]:
        shards = job.strategy.mesh.fsdp * job.strategy.mesh.context
        if not self.whole_weights or shards == 1:
            return []
        per_element = {1: 6, 2: 2}[self.stage]  # bf16 parameters, and below stage 2 fp32 gradients, lie whole
        sharded = {1: 4, 2: 0}[self.stage]  # what the laws already count of them
        return [
            Difference(
                name="sharding",
                plan="parameters, gradients and optimizer over fsdp x context",
                trainer=f"ZeRO-{self.stage}: {STAGES[self.stage]}",
                why="parameters are whole in bf16 on every rank",
                extra_bytes=round((per_element * shards - sharded) * job.state_elements),
            )
        ]

    def _offload(self, job: Job) -> list[Difference]:
        """Stage 1 leaves gradients on the device (deepspeed.ai/docs/config-json, ``offload_optimizer``)."""
        optimizer, parameters = (self.offloaded.get(name, "none") for name in ("offload_optimizer", "offload_param"))
        if self.stage == 0 or optimizer == parameters == "none":
            return []
        moved = 0.0
        if optimizer != "none":
            moved += 12.0 if self.stage == 1 else 16.0 if self.stage == 2 else (self.state_bytes - 2.0) * self._share
        if parameters != "none" and self.stage == 3:
            moved += 2.0
        where = optimizer if optimizer != "none" else parameters
        what = " and ".join(name for name, device in self.offloaded.items() if device != "none")
        return in_host_memory(job, bytes_per_parameter=moved, shards=job.strategy.devices, key=what, where=where)

    @property
    def _share(self) -> float:
        """``offload_optimizer.ratio``, the share of parameters that are updated on the host; of stage 3 only."""
        section = self.section.get("offload_optimizer")
        ratio = section.get("ratio", 1.0) if isinstance(section, Mapping) else 1.0
        return min(max(float(ratio), 0.0), 1.0) if isinstance(ratio, int | float) else 1.0

    def refusals(self, job: Job) -> list[str]:
        """List invalid combinations of DeepSpeed's settings."""
        found = []
        if self.stage == 0 and job.strategy.mesh.context > 1:
            found.append(
                f"sequence_parallel_size={job.strategy.mesh.context} with ZeRO-0 ends in the optimizer's first step "
                "(deepspeedai/DeepSpeed#7833); use stage 1, 2 or 3"
            )
        if self.stage < 3 and self.offloaded.get("offload_param", "none") != "none":
            found.append(f"offload_param is for ZeRO-3 only, and the stage is {self.stage}; use stage 3, or leave it out")
        return found
