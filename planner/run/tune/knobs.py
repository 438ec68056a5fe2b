"""The tuner's space, define-by-run: a mesh first, then the knobs that mean something on it.

A knob's name carries its mesh, since its values depend on it and Optuna wants a name's values to stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lcplan.strategy import COLLECTIVE_MATMULS, GROUP_SCHEMES, RING_SCHEMES, SCHEDULERS, SCHEMES, Strategy
from lcplan.strategy.remat import OFFLOAD_PERCENT, REMAT_POLICIES
from planner.measure.targets.schedulers import scheduler_verdict
from planner.request.request import SearchRequest
from planner.space.analysis import setting_of
from planner.space.enumerate import divisors
from planner.trainers import trainer

LOSS_CHUNKS = (256, 512, 1024, 2048, 4096, 8192, 16384)
ATTENTION_BLOCKS = {"blockwise": (0, 64, 128, 256, 1024, 2048), "splash": (0, 256, 1024, 2048)}
"""Tiles of the kernels that have some; 0 is their own 512."""
PLAIN = {"ulysses": 1, "bidirectional": "off", "collective_matmul": "off", "offload_percent": OFFLOAD_PERCENT}
"""Knobs of which a mesh or another knob decides whether they mean anything."""
OFFLOAD_PERCENTS = (25, 50, 75, 100)
"""Shares of the layers that offload."""
Pick = Callable[[str, Sequence[Any]], Any]
"""One of several values of a named knob: Optuna's suggestion, or what a given strategy has."""


@dataclass(frozen=True)
class TuningSpace:
    """What is tried: on the mesh of one of ``bases``, every knob within the request's filters.

    ``jax`` decides which scheduler presets are real. Presets are in no law, so without ``measured`` they stay as they are.
    """

    bases: tuple[Strategy, ...]
    request: SearchRequest
    jax: str
    measured: bool

    def suggest(self, pick: Pick) -> Strategy:
        """The strategy that ``pick`` makes."""
        labels = [base.mesh.label for base in self.bases]
        base = self.bases[labels.index(pick("mesh", labels))]
        mesh, filters = base.mesh, self.request.filters

        def knob(name: str, values: Sequence[Any]) -> Any:
            allowed = tuple(getattr(filters, name)) or tuple(values)
            return allowed[0] if len(allowed) == 1 else pick(f"{mesh.label}: {name}", allowed)

        chosen: dict[str, Any] = {
            "remat": knob("remat", _remats(self.request)),
            "microbatches": knob("microbatches", _parts(base, self.request)),
            "loss_chunk_tokens": knob("loss_chunk_tokens", _chunks(base, self.request)),
            "attention_block": knob("attention_block", ATTENTION_BLOCKS.get(setting_of(self.request).kernel, (0,))),
            "scheduler": knob("scheduler", self._schedulers(base)),
        }
        if REMAT_POLICIES[chosen["remat"]].offloaded:
            chosen["offload_percent"] = knob("offload_percent", _shares(self.request))
        if mesh.context > 1:
            exchanges = [n for n in divisors(mesh.context) if 1 < n < mesh.context]
            chosen["scheme"] = knob("scheme", [name for name in SCHEMES if exchanges or name not in GROUP_SCHEMES])
            if chosen["scheme"] in GROUP_SCHEMES:
                chosen["ulysses"] = knob("ulysses", exchanges or [1])
            if chosen["scheme"] in RING_SCHEMES:
                chosen["bidirectional"] = knob("bidirectional", ("off", "on"))
        if mesh.tensor > 1:
            chosen["collective_matmul"] = knob("collective_matmul", COLLECTIVE_MATMULS)
        for name in ("gather_dtype", "reduce_dtype", "moments_dtype"):  # numerics are the user's to give away
            chosen[name] = knob(name, (getattr(base, name),))
        rings = mesh.context > 1 and chosen["scheme"] in RING_SCHEMES
        if base.backend in ("nvshmem", "symmetric") and not rings and "nccl" in (filters.backend or ("nccl",)):
            chosen["backend"] = "nccl"  # the others carry permutes alone
        return Strategy.model_validate(base.model_dump() | PLAIN | chosen)

    def parameters_of(self, strategy: Strategy) -> dict[str, Any] | None:
        """What Optuna must suggest for ``suggest`` to give ``strategy``; None where the space does not hold it."""
        found: dict[str, Any] = {}

        def pick(name: str, values: Sequence[Any]) -> Any:
            own = strategy.mesh.label if name == "mesh" else getattr(strategy, name.rpartition(": ")[2])
            found[name] = own if own in values else values[0]
            return found[name]

        return found if self.suggest(pick) == strategy else None

    def _schedulers(self, base: Strategy) -> Sequence[str]:
        hardware = self.request.hardware
        real = [name for name in SCHEDULERS if scheduler_verdict(name, hardware, jax=self.jax) is True]
        return real if real and self.measured else (base.scheduler,)


def _remats(request: SearchRequest) -> tuple[str, ...]:
    """Offloading needs a link to the host."""
    linked = request.hardware.device.host_oneway_bytes_per_s is not None
    return tuple(name for name, policy in REMAT_POLICIES.items() if linked or not policy.offloaded)


def _shares(request: SearchRequest) -> tuple[int, ...]:
    """A trainer without the key has every layer offload."""
    chosen = request.trainer is None or trainer(request.trainer).offload_shares
    return OFFLOAD_PERCENTS if chosen else (OFFLOAD_PERCENT,)


def _parts(base: Strategy, request: SearchRequest) -> tuple[int, ...]:
    return divisors(max(1, request.workload.global_batch // (base.mesh.data * base.mesh.fsdp * base.mesh.expert)))


def _chunks(base: Strategy, request: SearchRequest) -> tuple[int, ...]:
    local = request.workload.seq_len // base.mesh.context
    fitting = {size for size in LOSS_CHUNKS if local % size == 0 and size % base.mesh.tensor == 0}
    return tuple(sorted({*fitting, base.loss_chunk_tokens}))
