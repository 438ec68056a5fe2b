"""Which strategies to compile next: finished compiles decide, since the program has no cost model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lcplan.spec.own_step import StepSpace, StepStrategy
from planner.own_step.candidate import StepCandidate
from planner.own_step.space import knob_places


@dataclass
class Frontier:
    """The strategies that are not compiled yet. Values of a knob are declared from fast to lean.

    Of a mesh, values between the fastest and the leanest come first. From there it goes towards faster values while they fit,
    and towards leaner ones until they do. Values that are all as fast as, or faster than, those of a strategy of the same mesh
    that did not fit are left out: they need at least its memory.
    """

    space: StepSpace
    waiting: list[StepStrategy]
    done: list[StepCandidate] = field(default_factory=list)

    def take(self, count: int) -> list[StepStrategy]:
        """Take up to ``count`` strategies: one per mesh, meshes without a compile first, then the fastest."""
        meshes = sorted({strategy.mesh_label: None for strategy in self.waiting}, key=self._promise)
        taken = [best for mesh in meshes if (best := self._next(mesh)) is not None][:count]
        self.waiting = [strategy for strategy in self.waiting if strategy not in taken]
        return taken

    def add(self, candidates: Sequence[StepCandidate]) -> None:
        """Learn from compiles."""
        self.done += candidates
        for one in candidates:
            if one.compiled is not None and one.compiled.error is None and not one.fits:
                limit = knob_places(self.space, one.strategy)
                self.waiting = [
                    other
                    for other in self.waiting
                    if other.mesh_label != one.strategy.mesh_label or not _at_most(knob_places(self.space, other), limit)
                ]

    def _promise(self, mesh: str) -> tuple[int, float, str]:
        """Sort key: meshes without a compile, then the fastest, then meshes on which no compile fits yet."""
        mine = [one for one in self.done if one.strategy.mesh_label == mesh and one.compiled is not None]
        if not mine:
            return 0, 0.0, mesh
        times = [one.step_s for one in mine if one.fits and one.step_s is not None]
        return (1, min(times), mesh) if times else (2, float(len(mine)), mesh)

    def _next(self, mesh: str) -> StepStrategy | None:
        mine = [strategy for strategy in self.waiting if strategy.mesh_label == mesh]
        if not mine:
            return None
        places = {strategy: knob_places(self.space, strategy) for strategy in mine}
        fitting = [knob_places(self.space, one.strategy) for one in self.done if one.fits and one.strategy.mesh_label == mesh]
        if not fitting:
            ordered = sorted(mine, key=lambda one: (self._leanness(places[one]), places[one]))
            return ordered[len(ordered) // 2]

        def key(one: StepStrategy) -> tuple[bool, float, tuple[int, ...]]:
            leaner = any(_at_most(fit, places[one]) for fit in fitting)
            near = min(sum(abs(a - b) for a, b in zip(places[one], fit, strict=True)) for fit in fitting)
            return leaner, float(near), places[one]

        return min(mine, key=key)

    def _leanness(self, places: tuple[int, ...]) -> float:
        lengths = [max(1, len(values) - 1) for values in self.space.knobs.values()]
        return sum(place / length for place, length in zip(places, lengths, strict=True))


def _at_most(places: tuple[int, ...], limit: tuple[int, ...]) -> bool:
    return all(place <= most for place, most in zip(places, limit, strict=True))
