"""The tuner's space, define-by-run: a mesh first, then the knobs that mean something on it.

A knob's name carries its mesh, since its values depend on it and Optuna wants a name's values to stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lcplan.formats.nearest import divisors
from lcplan.strategy import GROUP_SCHEMES, RING_SCHEMES, SCHEDULERS, STEP_KNOBS, Knob, Strategy, Value
from lcplan.strategy.remat import REMAT_POLICIES
from planner.measure.targets.schedulers import scheduler_verdict
from planner.request.request import SearchRequest
from planner.space.analysis import setting_of
from planner.trainers import trainer

SMALLEST_TILES = {"blockwise": 64, "splash": 256}
"""The smallest tile that is tried of each kernel that has tiles [queries]."""
OF_BASE = frozenset({"backend", "sharding_mode"})
"""Knobs that stay as the base has them, whatever the filters let in."""
Pick = Callable[[str, Sequence[Any]], Any]
"""One of several values of a named knob: Optuna's suggestion, or the value of a given strategy."""


@dataclass(frozen=True)
class TuningSpace:
    """The space of trials: on the mesh of one of ``bases``, every knob within the request's filters.

    ``jax`` decides which scheduler presets are real. No cost model covers presets: they vary only if ``measured``.
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

        conditional = {name: record.default for name, record in STEP_KNOBS.items() if record.active_when}
        made = base.model_copy(update=conditional)
        for name, record in STEP_KNOBS.items():
            if name not in OF_BASE and record.is_active(made):
                made = made.model_copy(update={name: knob(name, self._values(record, base))})
        rings = mesh.context > 1 and made.scheme in RING_SCHEMES
        if base.backend in ("nvshmem", "symmetric") and not rings and "nccl" in (filters.backend or ("nccl",)):
            made = made.model_copy(update={"backend": "nccl"})  # the others carry permutes alone
        return Strategy.model_validate(made.model_dump())

    def parameters_of(self, strategy: Strategy) -> dict[str, Any] | None:
        """Return the suggestions from which ``suggest`` makes ``strategy``; None where the space does not hold it."""
        found: dict[str, Any] = {}

        def pick(name: str, values: Sequence[Any]) -> Any:
            own = strategy.mesh.label if name == "mesh" else getattr(strategy, name.rpartition(": ")[2])
            found[name] = own if own in values else values[0]
            return found[name]

        return found if self.suggest(pick) == strategy else None

    def _values(self, knob: Knob, base: Strategy) -> Sequence[Value]:
        """Values of a knob that are possible on the mesh of ``base``; one: there is nothing to try."""
        if knob in _lacked(self.request):
            return (knob.default,)
        possible = POSSIBLE.get(knob.name)
        if possible is not None:
            return possible(self, base)
        return knob.tuner or (base.knob(knob.name),)

    def schemes(self, base: Strategy) -> Sequence[Value]:
        """Return the schemes to try; schemes of groups need a part of the context axis that can exchange heads."""
        return [name for name in STEP_KNOBS["scheme"].tuner if self.exchanges(base) or name not in GROUP_SCHEMES]

    def exchanges(self, base: Strategy) -> Sequence[Value]:
        """Sizes of exchange that leave a ring."""
        return divisors(base.mesh.context)[1:-1]

    def remats(self, _: Strategy) -> Sequence[Value]:
        """Offloading needs a link to the host."""
        linked = self.request.hardware.device.host_oneway_bytes_per_s is not None
        return [name for name, policy in REMAT_POLICIES.items() if linked or not policy.offloaded]

    def parts(self, base: Strategy) -> Sequence[Value]:
        """Every number of microbatches that divides a rank's sequences."""
        return divisors(max(1, self.request.workload.global_batch // base.mesh.batch_ranks))

    def chunks(self, base: Strategy) -> Sequence[Value]:
        """Loss chunks that divide a rank's tokens and split over tensor, and the chunk of ``base``."""
        local, sizes = self.request.workload.seq_len // base.mesh.context, map(int, STEP_KNOBS["loss_chunk_tokens"].tuner)
        fitting = {size for size in sizes if local % size == 0 and size % base.mesh.tensor == 0}
        return tuple(sorted({*fitting, base.loss_chunk_tokens}))

    def tiles(self, _: Strategy) -> Sequence[Value]:
        """Tiles of the kernel that runs; 0 is its own."""
        least = SMALLEST_TILES.get(setting_of(self.request).kernel)
        return [size for size in STEP_KNOBS["attention_block"].tuner if not size or (least and int(size) >= least)]

    def schedulers(self, base: Strategy) -> Sequence[Value]:
        """Presets that are real under the jax at hand, if trials are measured: no cost model reads them."""
        hardware = self.request.hardware
        real = [name for name in SCHEDULERS if scheduler_verdict(name, hardware, jax=self.jax) is True]
        return real if real and self.measured else (base.scheduler,)


POSSIBLE: Mapping[str, Callable[[TuningSpace, Strategy], Sequence[Value]]] = MappingProxyType(
    {
        "scheme": TuningSpace.schemes,
        "ulysses": lambda space, base: space.exchanges(base) or (1,),
        "remat": TuningSpace.remats,
        "microbatches": TuningSpace.parts,
        "loss_chunk_tokens": TuningSpace.chunks,
        "attention_block": TuningSpace.tiles,
        "scheduler": TuningSpace.schedulers,
    }
)
"""Knobs whose values depend on the mesh, the hardware or the toolchain; others have all values of ``Knob.tuner``."""


def _lacked(request: SearchRequest) -> Sequence[Knob]:
    """Knobs that the trainer's files have no key for."""
    return trainer(request.trainer).lacks if request.trainer is not None else ()
