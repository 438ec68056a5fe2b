"""The table of candidates as values: one row for each, with the knobs that distinguish them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lcplan.formats.units import format_bytes
from lcplan.strategy import Strategy
from planner.candidates.candidate import Candidate
from planner.report.view.labels import mesh_label, scheme_label
from planner.report.view.performance import Performance, by_backend, headroom, host_bytes

Outcome = Literal["fits", "over", "failed"]


@dataclass(frozen=True)
class CandidateRow:
    """One candidate: its place, its strategy as text, its figures, and how it came out."""

    number: int
    mesh: str
    mesh_sizes: str
    knobs: tuple[str, ...]
    microbatches: str
    performance: Performance
    rung: str
    outcome: Outcome
    fits: bool
    won: bool
    scheme: str
    remat: str
    headroom: str
    host: str
    """Host memory of each device; empty where nothing is offloaded."""
    backends: str
    """Step time on each backend of the plan; empty where there is one."""


@dataclass(frozen=True)
class CandidateTable:
    """Candidates, best first; ``knobs`` names the columns between the mesh and the microbatches."""

    knobs: tuple[str, ...]
    rows: tuple[CandidateRow, ...]

    @property
    def offloads(self) -> bool:
        """Whether any candidate takes memory of its host."""
        return any(row.host for row in self.rows)

    @classmethod
    def of(cls, candidates: Sequence[Candidate], budget_bytes: float, *, winner: Candidate | None = None) -> CandidateTable:
        """Rows of ``candidates``; a collective matmul has a column where one of them runs it."""
        sampled = bool(candidates) and candidates[0].strategy.sampling is not None
        rings = any(candidate.strategy.collective_matmul != "off" for candidate in candidates)
        knobs = ("parameters", "cache") if sampled else ("scheme", "remat")
        rows = tuple(
            replace(
                _row(candidate, number, rings=rings, won=winner is not None and winner.strategy == candidate.strategy),
                headroom=headroom(candidate, budget_bytes),
            )
            for number, candidate in enumerate(candidates, start=1)
        )
        return cls((*knobs, "backend", *(("matmul",) if rings else ())), rows)


def _row(candidate: Candidate, number: int, *, rings: bool, won: bool) -> CandidateRow:
    strategy = candidate.strategy
    return CandidateRow(
        number=number,
        mesh=mesh_label(strategy),
        mesh_sizes=strategy.mesh.label,
        knobs=(*_main_knobs(strategy), strategy.backend, *((strategy.collective_matmul,) if rings else ())),
        microbatches=str(strategy.microbatches),
        performance=Performance.of(candidate),
        rung=candidate.best.rung,
        outcome="failed" if not candidate.usable else "fits" if candidate.best.fits else "over",
        fits=candidate.best.fits,
        won=won,
        scheme=scheme_label(strategy),
        remat=strategy.remat,
        headroom="",
        host=format_bytes(away) if (away := host_bytes(candidate)) else "",
        backends=by_backend(candidate),
    )


def _main_knobs(strategy: Strategy) -> tuple[str, str]:
    rollout = strategy.sampling
    return (rollout.parameters, rollout.cache) if rollout else (strategy.scheme_label, strategy.remat_label)
