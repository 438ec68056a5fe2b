"""The table of candidates, and what one candidate is made of."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from lcplan.formats.units import format_bytes, format_count, format_seconds
from planner.candidates.candidate import Candidate
from planner.report.terminal.evidence_marks import MARKS

BAR_WIDTH = 30


def candidate_table(candidates: Sequence[Candidate], title: str) -> Table:
    """One line a candidate, best first."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    table.padding = (0, 1, 0, 0)
    sampled = bool(candidates) and candidates[0].strategy.sampling is not None
    rings = any(candidate.strategy.collective_matmul != "off" for candidate in candidates)
    knobs = (*(("parameters", "cache") if sampled else ("scheme", "remat")), "backend", *(("matmul",) if rings else ()), "mb")
    for name in ("#", "mesh", *knobs, "step", "tokens/s", "TFLOP/s", "memory", ""):
        numeric = name in {"#", "mb", "step", "tokens/s", "TFLOP/s", "memory"}
        table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
    for number, candidate in enumerate(candidates, start=1):
        table.add_row(*_cells(candidate, number, rings=rings), style=None if candidate.best.fits else "dim")
    return table


def _cells(candidate: Candidate, number: int, *, rings: bool) -> list[str]:
    strategy, best = candidate.strategy, candidate.best
    timed = candidate.timed is not None and candidate.timed.step_s is not None
    step_mark = MARKS[best.rung if timed else "modelled"]
    compiled = candidate.compiled is not None and candidate.compiled.total_bytes is not None
    memory_mark = MARKS[candidate.compiled.rung if compiled and candidate.compiled else "modelled"]
    rate = candidate.estimate["tflop_per_s_per_device"] * candidate.estimate["step_s"] / best.step_s
    rollout = strategy.sampling
    return [
        str(number),
        mesh_label(candidate),
        *((rollout.parameters, rollout.cache) if rollout else (strategy.scheme_label, strategy.remat_label)),
        strategy.backend,
        *((strategy.collective_matmul,) if rings else ()),
        str(strategy.microbatches),
        f"{format_seconds(best.step_s)} {step_mark}",
        format_count(best.tokens_per_s),
        f"{rate:.0f}",
        f"{format_bytes(best.memory_bytes)} {memory_mark}",
        _verdict(candidate),
    ]


def _verdict(candidate: Candidate) -> str:
    for evidence in (candidate.compiled, candidate.timed):
        if evidence is not None and evidence.error:
            return "failed"
    return "" if candidate.best.fits else "over"


def mesh_label(candidate: Candidate) -> str:
    """The axes above one in one letter each: ``c16 t2`` is context 16 by tensor 2."""
    short = candidate.strategy.mesh.short_label
    return f"{candidate.strategy.devices}: {short}" if short else "1"


def breakdown(parts: dict[str, float], unit: str) -> Table:
    """Parts of a whole as bars, largest first; ``unit`` is ``bytes`` or ``seconds``."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    whole = sum(parts.values()) or 1.0
    show = format_bytes if unit == "bytes" else format_seconds
    for name, value in sorted(parts.items(), key=lambda item: -item[1]):
        if value / whole < 0.001:
            continue
        bar = Text("█" * max(1, round(BAR_WIDTH * value / whole)), style="cyan")
        table.add_row(name.replace("_", " "), show(value), f"{value / whole:.1%}", bar)
    return table
