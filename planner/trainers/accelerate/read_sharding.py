"""How Accelerate's YAML splits the state: FSDP of either version, DeepSpeed's ZeRO, or replicas only (DDP)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cost_models.inputs.program import Program
from lcplan.formats.booleans import truth
from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from planner.trainers import Difference, Job
from planner.trainers.common.imported import whole
from planner.trainers.common.offload import STATE_BYTES, in_host_memory
from planner.trainers.common.programs import TRANSFORMERS
from planner.trainers.common.rules import bf16_masters, fp32_products, gathered_weights
from planner.trainers.common.zero import Zero, stage_of

Kind = Literal["fsdp", "fsdp1", "deepspeed", "ddp"]
KINDS: Mapping[str, Kind] = {"FSDP": "fsdp", "DEEPSPEED": "deepspeed", "MULTI_GPU": "ddp", "NO": "ddp"}
SHARDING = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")
"""``fsdp_sharding_strategy`` of FSDP version 1, by its numbers from 1 (torch.distributed.fsdp.ShardingStrategy)."""

ROUNDED = "moments in bf16 are those of parameters in bf16, whose gradients are too"
CHILDREN = (
    "fsdp_activation_checkpointing with FSDP2 keeps one tensor of the stream a layer since huggingface/accelerate#4172 (August "
    "2026) and is priced so; releases before checkpoint a layer's children and keep about four, where gradient_checkpointing "
    "of the training arguments keeps one"
)


@dataclass(frozen=True)
class Way:
    """How the state is split, and where each part is kept."""

    kind: Kind
    sharding: str = "FULL_SHARD"
    machines: int = 1
    mixed: bool = True
    """Whether ``mixed_precision`` is on; off, products run in the dtype that the script loads."""
    offloads: bool = False
    """``fsdp_offload_params``."""
    checkpoints: bool = False
    """``fsdp_activation_checkpointing``."""
    keeps_gathered: bool = False
    """Whether gathered weights stay from the forward to the backward pass."""
    zero: Zero | None = None

    @property
    def sharded_by_mesh(self) -> bool:
        """Whether parallelism_config's sizes state the split: FSDP2's do."""
        return self.kind == "fsdp"

    def copies(self, ranks: int) -> int:
        """Count the replicas of the state among the data-parallel ranks, where no mesh states them."""
        if self.kind == "ddp" or self.sharding == "NO_SHARD" or (self.zero is not None and self.zero.stage == 0):
            return ranks
        return self.machines if self.sharding.startswith("HYBRID") else 1

    @property
    def whole_weights(self) -> bool:
        """Whether every rank holds the weights whole, below ZeRO-3."""
        return self.zero is not None and self.zero.whole_weights

    @property
    def program(self) -> Program:
        """Return the priced step."""
        kept: dict[str, Any] = {"weights_gathered": "once"} if self.keeps_gathered else {}
        plain = TRANSFORMERS.model_copy(update={"loss": "chunked", **kept})
        return plain if self.zero is None else self.zero.program

    @property
    def waives(self) -> tuple[str, ...]:
        """Rules of FSDP2's that the others do not have."""
        if self.kind == "fsdp":
            return ()
        return ("accelerate-shards", "accelerate-replicas", *("accelerate-chunks",) * (self.kind == "deepspeed"))

    @property
    def notes(self) -> tuple[str, ...]:
        """List the settings that were read differently from the file."""
        if self.zero is not None:
            return self.zero.notes
        return (CHILDREN,) if self.kind == "fsdp" and self.checkpoints else ()

    def differences(self, job: Job) -> list[Difference]:
        """List the parts of the state whose place differs from the cost model's."""
        if self.zero is not None:
            return self.zero.differences(job)
        found = gathered_weights(job, key="fsdp_reshard_after_forward or its strategy") if self.keeps_gathered else []
        found += self._dtypes(job)
        if not self.offloads:
            return found
        shards = job.strategy.state_shards
        held = STATE_BYTES / 2 if job.strategy.moments_dtype == "bf16" else STATE_BYTES
        return found + in_host_memory(job, bytes_per_parameter=held, shards=shards, key="fsdp_offload_params")

    def _dtypes(self, job: Job) -> list[Difference]:
        """torch's AdamW keeps moments in the parameters' dtype; autocast copies whole fp32 parameters in bf16."""
        if job.strategy.moments_dtype == "bf16":
            return bf16_masters(job, bytes_per_parameter=4.0, key=ROUNDED)
        if not self.mixed:
            return [fp32_products(job, self.program)]
        if self.kind != "ddp":
            return []
        return [
            Difference(
                name="autocast",
                plan="weights cast as they are used",
                trainer="a bf16 copy of all weights during the forward pass",
                why="autocast caches its casts: 18 bytes a parameter (huggingface.co/docs/transformers/model_memory_anatomy)",
                extra_bytes=round(2.0 * job.model.parameters / job.strategy.mesh.tensor),
            )
        ]

    def refusals(self, job: Job, *, ulysses: bool) -> list[str]:
        """List the settings that Accelerate accepts only with another kind of split."""
        context, found = job.strategy.mesh.context, [] if self.zero is None else self.zero.refusals(job)
        if context > 1 and ulysses and self.kind != "deepspeed":
            found.append(f"sp_size={context} runs only under distributed_type DEEPSPEED; use that, or cp_size with FSDP2")
        if context > 1 and not ulysses and self.kind != "fsdp":
            name = {"fsdp1": "FSDP version 1", "deepspeed": "DeepSpeed", "ddp": "replicas alone"}[self.kind]
            found.append(
                f"cp_size={context} needs FSDP2 (fsdp_version: 2), and this is {name}; use that, or sp_size with DeepSpeed"
            )
        return found


def way_of(data: Mapping[str, Any], fsdp: Mapping[str, Any], *, file: str) -> Way:
    """Return the kind of split that a YAML states; FSDP2 by default.

    Raises
    ------
    BadInputError
        A way that lcplan does not read, or a value that Accelerate has not.
    """
    named = str(data.get("distributed_type", "FSDP"))
    if named not in KINDS:
        way = "; give Megatron's arguments with --from-megatron" if named == "MEGATRON_LM" else hint(named, KINDS)
        raise BadInputError(f"{file}: lcplan does not read distributed_type {named!r}{way}")
    machines = whole(data.get("num_machines", 1), "num_machines", file=file)
    mixed = data.get("mixed_precision", "bf16") not in ("no", False)
    if KINDS[named] == "deepspeed":
        return Way("deepspeed", machines=machines, zero=_zero(data, file=file))
    if KINDS[named] == "ddp":
        return Way("ddp", machines=machines, mixed=mixed)
    resharding = str(fsdp.get("fsdp_reshard_after_forward", True)).upper()
    strategy = fsdp.get("fsdp_sharding_strategy", resharding if resharding in SHARDING else None)
    first = strategy is not None and fsdp.get("fsdp_version", 1) != 2
    sharding = _sharding(strategy, file=file) if first else "FULL_SHARD"
    kept = resharding == "SHARD_GRAD_OP"
    if resharding not in SHARDING:
        kept = not truth(fsdp, "fsdp_reshard_after_forward", default=True, file=file)
    return Way(
        "fsdp1" if fsdp.get("fsdp_version", 2 if not first else 1) == 1 else "fsdp",
        sharding,
        machines=machines,
        mixed=mixed,
        offloads=truth(fsdp, "fsdp_offload_params", file=file),
        checkpoints=truth(fsdp, "fsdp_activation_checkpointing", file=file),
        keeps_gathered=kept or sharding in ("SHARD_GRAD_OP", "HYBRID_SHARD_ZERO2"),
    )


def _sharding(value: Any, *, file: str) -> str:
    name = SHARDING[value - 1] if isinstance(value, int) and 1 <= value <= len(SHARDING) else str(value)
    if name not in SHARDING:
        raise BadInputError(f"{file}: fsdp_sharding_strategy {name!r:.60}{hint(name, SHARDING)}")
    return name


def _zero(data: Mapping[str, Any], *, file: str) -> Zero:
    section = data.get("deepspeed_config") or {}
    if not isinstance(section, dict):
        raise BadInputError(f"{file}: deepspeed_config is not a mapping of keys to values")
    if "deepspeed_config_file" in section:
        raise BadInputError(
            f"{file}: deepspeed_config_file {section['deepspeed_config_file']!r:.80} has the rest; give that file with "
            "--from-deepspeed and --devices"
        )
    stage = stage_of(section.get("zero_stage", 2), "deepspeed_config.zero_stage", file=file)
    offloaded = {name: str(section.get(f"{name}_device", "none")) for name in ("offload_optimizer", "offload_param")}
    return Zero(stage, {"stage": stage}, offloaded=offloaded)
