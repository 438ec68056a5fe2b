"""The page of a run as one value: everything that the template shows, in its order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lcplan.formats.textfile import read_text
from lcplan.formats.units import format_bytes, format_seconds
from lcplan.spec.hardware import HardwareSpec
from planner.explain.explanation import Explanation
from planner.report.charts.chart import Chart, Figures
from planner.report.view.candidates import CandidateTable
from planner.report.view.explanation import bases, moved, others, waited
from planner.report.view.performance import Performance, host, host_bytes, need_bytes
from planner.report.view.performance import bases as half_widths
from planner.report.view.request import asked, title
from planner.report.view.trainer_files import TrainerFiles, trainer_files
from planner.run.run_read import Run
from planner.workloads.pricing import price


@dataclass(frozen=True)
class Fact:
    """One key figure of the answer."""

    name: str
    value: str
    detail: str = ""


@dataclass(frozen=True)
class Answer:
    """The top of the page: the strategy to run, its key figures, warnings, and changes where nothing fits."""

    won: bool
    strategy: str
    facts: tuple[Fact, ...]
    trouble: tuple[str, ...]
    changes: tuple[str, ...]


@dataclass(frozen=True)
class Filter:
    """A choice that hides dots of the scatter and rows of the candidates; ``options`` are values and their words."""

    name: str
    label: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class PlanFiles:
    """The plan file's name and text, and the files that each trainer gets of it."""

    name: str
    text: str
    trainers: tuple[TrainerFiles, ...]


@dataclass(frozen=True)
class Page:
    """All of a page; a table without rows and a plan that is None are left out."""

    title: str
    asked: str
    answer: Answer
    scatter: Chart
    filters: tuple[Filter, ...]
    candidates: CandidateTable
    charts: tuple[Chart, ...]
    others: Figures
    moved: Figures
    waited: Figures
    bases: Figures
    plan: PlanFiles | None
    notes: tuple[str, ...]
    device: str
    sources: Figures

    @classmethod
    def of(cls, found: Explanation, charts: tuple[Chart, ...]) -> Page:
        """Gather everything of an explained run; the first chart is the scatter that the filters act on."""
        run, (scatter, *others_drawn) = found.run, charts
        return cls(
            title=title(run.request),
            asked=asked(run.request),
            answer=_answer(found),
            scatter=scatter,
            filters=_filters(scatter),
            candidates=CandidateTable.of(run.shown, run.request.budget_bytes, winner=run.winner),
            charts=tuple(others_drawn),
            others=_others(found),
            moved=_moved(found),
            waited=Figures(("communication", "transfer", "hidden", "exposed"), waited(found)),
            bases=_bases(found),
            plan=_plan(run),
            notes=(*(f"Half-width {line}." for line in half_widths(found.candidate)), *run.notes, *_stale(run)),
            device=run.request.hardware.device.name,
            sources=_sources(run.request.hardware),
        )


def _answer(found: Explanation) -> Answer:
    run = found.run
    won = run.winner is not None and run.winner.strategy == found.candidate.strategy
    changes = () if won else tuple(_change(change) for change in run.changes)
    return Answer(won, found.candidate.strategy.label, _facts(found), found.trouble, changes)


def _change(change: dict[str, Any]) -> str:
    return f"{change['change']} (step {format_seconds(change['step_s'])})"


def _facts(found: Explanation) -> tuple[Fact, ...]:
    candidate, budget = found.candidate, format_bytes(found.run.request.budget_bytes)
    shown = Performance.of(candidate)
    timed = "timed" if shown.step_rung != "modelled" else "modelled"
    return (
        Fact("step", shown.step, f"{timed} {shown.step_unsure}".strip()),
        Fact("tokens per second", shown.tokens_per_s, f"on {candidate.strategy.devices} devices"),
        Fact("TFLOP/s per device", shown.tflop_per_s, f"MFU {candidate.estimate['mfu_ratio']:.0%}, causal FLOPs"),
        Fact(
            "memory a device",
            format_bytes(need_bytes(candidate)),
            f"of {budget}; {shown.memory_rung} {shown.memory_unsure}".strip(),
        ),
        *_host(found),
        Fact("device-hours a billion tokens", f"{found.cost.device_hours:,.4g}", _money(found)),
        Fact("rests on measured rates", f"{found.measured_share:.0%}", "of the modelled step"),
    )


def _host(found: Explanation) -> tuple[Fact, ...]:
    """Memory of the host, where the strategy offloads."""
    words = host(found.candidate, found.run.request.hardware)
    return (Fact("host memory a device", format_bytes(host_bytes(found.candidate)), words),) if words else ()


def _money(found: Explanation) -> str:
    parts = []
    if found.cost.price_usd is not None:
        parts.append(f"{found.cost.price_usd:,.2f} USD")
    if found.cost.energy_kwh is not None:
        parts.append(f"{found.cost.energy_kwh:,.4g} kWh of the devices")
    return ", ".join(parts)


def _others(found: Explanation) -> Figures:
    rows = tuple((one.strategy, one.against or "-", one.why) for one in others(found))
    return Figures(("strategy", "against the winner", "why"), rows)


def _moved(found: Explanation) -> Figures:
    rows = tuple(
        (one.quantity, one.value, "the same" if one.same else one.strategy or "nothing fits", one.tokens_per_s or "-")
        for one in moved(found)
    )
    return Figures(("if", "is", "then the best is", "tokens/s"), rows)


def _bases(found: Explanation) -> Figures:
    rows = tuple((one.part, one.seconds, one.kind, one.sources or "launch and floor times") for one in bases(found))
    return Figures(("part", "seconds", "basis", "sources"), rows)


def _filters(scatter: Chart) -> tuple[Filter, ...]:
    values = scatter.spec["data"]["values"]

    def names(field: str) -> tuple[tuple[str, str], ...]:
        return (("all", "all"), *((name, name) for name in sorted({value[field] for value in values})))

    fitting = (("all", "everything"), ("yes", "only rows that fit"))
    return (
        Filter("scheme", "Scheme", names("scheme")),
        Filter("remat", "Remat", names("remat")),
        Filter("fitting", "Show", fitting),
    )


def _plan(run: Run) -> PlanFiles | None:
    if run.plan_file is None:
        return None
    return PlanFiles(str(run.plan_file), read_text(run.plan_file), trainer_files(run.plan_file))


def _stale(run: Run) -> tuple[str, ...]:
    """Note that today's cost models would price the run differently: the cloud is of today, the candidates are of the run."""
    winner = run.winner
    if winner is None or price(run.request, winner.strategy).estimate == winner.estimate:
        return ()
    return ("The cost models have changed since this run: this lcplan priced the faint dots, an earlier one the candidates.",)


def _sources(hardware: HardwareSpec) -> Figures:
    """List the sources of the hardware's figures."""
    device = hardware.device
    named = [
        ("peak", f"{device.peak_flop_per_s.value / 1e12:,.4g} TFLOP/s bf16", device.peak_flop_per_s),
        ("memory", format_bytes(device.hbm_bytes.value), device.hbm_bytes),
        ("memory bandwidth", f"{device.hbm_bytes_per_s.value / 1e9:,.4g} GB/s", device.hbm_bytes_per_s),
    ]
    for link in (hardware.domain_link, hardware.network_link):
        if link is not None:
            figure = link.oneway_bytes_per_s
            named.append((link.name, f"{figure.value / 1e9:,.4g} GB/s one way per device", figure))
    rows = tuple((name, value, figure.kind, figure.source) for name, value, figure in named)
    return Figures(("figure", "value", "kind", "source"), rows)
