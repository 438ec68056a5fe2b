"""The Pareto scatter: step time against memory, coloured by scheme; survivors are larger than the cloud of priced ones."""

from __future__ import annotations

from typing import Any

from lcplan.formats.units import GIB, format_bytes, format_seconds
from lcplan.strategy import SCHEMES
from planner.candidates.candidate import Candidate
from planner.report.charts.chart import PALETTE, Chart, Figures
from planner.report.charts.priced_sample import Dot
from planner.report.view.labels import NO_CONTEXT, scheme_label
from planner.report.view.performance import need_bytes
from planner.run.run_read import Run

GROUPS = (*SCHEMES, NO_CONTEXT)
"""The groups of strategies, each with a colour and a shape."""
SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")
KINDS = ("priced", "candidate", "winner")
HEIGHT_PIXELS = 380
FILTERS = ("scheme", "remat", "fitting")
"""Parameters that the page's controls set; ``all`` lets everything through."""
KEEP = (
    "(scheme_filter == 'all' || datum.scheme == scheme_filter) && (remat_filter == 'all' || datum.remat == remat_filter)"
    " && (fitting_filter == 'all' || datum.fits == 'yes')"
)
TOOLTIP: tuple[dict[str, str], ...] = (
    {"field": "strategy", "type": "nominal"},
    {"field": "kind", "type": "nominal"},
    {"field": "step_s", "type": "quantitative", "title": "step [s]", "format": ".4g"},
    {"field": "memory_gib", "type": "quantitative", "title": "memory [GiB]", "format": ".1f"},
    {"field": "devices", "type": "quantitative"},
    {"field": "fits", "type": "nominal"},
    {"field": "rung", "type": "nominal"},
)


def pareto(run: Run, dots: tuple[Dot, ...]) -> Chart:
    """All of a run's candidates over a sample of the priced strategies."""
    values = [_dot(dot) for dot in dots] + [_candidate(run, candidate) for candidate in run.shown]
    return Chart(
        name="pareto",
        title="Step time against memory",
        says=(
            f"Scatter of {len(values)} strategies: step time across, memory a device upwards, colour and shape by context "
            "scheme. The table below it has the candidates."
        ),
        spec=_spec(values, run.request.budget_bytes / GIB),
        figures=_figures(run),
        note=(
            "Faint dots are modelled; large ones are candidates, on the best evidence available. Memory includes the allowance."
        ),
    )


def _spec(values: list[dict[str, Any]], budget_gib: float) -> dict[str, Any]:
    return {
        "width": None,
        "height": HEIGHT_PIXELS,
        "params": [{"name": f"{name}_filter", "value": "all"} for name in FILTERS],
        "data": {"values": values},
        "layer": [_dots(values), *_budget_line(budget_gib)],
    }


def _dots(values: list[dict[str, Any]]) -> dict[str, Any]:
    shown = [scheme for scheme in GROUPS if any(value["scheme"] == scheme for value in values)]
    colours = {"domain": shown, "range": [PALETTE[GROUPS.index(scheme) % len(PALETTE)] for scheme in shown]}
    shapes = {"domain": shown, "range": [SHAPES[GROUPS.index(scheme) % len(SHAPES)] for scheme in shown]}
    log = {"type": "log", "nice": False, "padding": 12}
    memory = "memory a device with allowance [GiB], log scale"
    return {
        "transform": [{"filter": KEEP}],
        "mark": {"type": "point", "filled": True, "stroke": "currentColor"},
        "encoding": {
            "x": {"field": "step_s", "type": "quantitative", "scale": log, "title": "step time [s], log scale"},
            "y": {"field": "memory_gib", "type": "quantitative", "scale": log, "title": memory},
            "color": {"field": "scheme", "type": "nominal", "scale": colours, "title": "scheme"},
            "shape": {"field": "scheme", "type": "nominal", "scale": shapes, "title": "scheme"},
            "size": _by_kind([34, 150, 320]),
            "opacity": _by_kind([0.32, 0.95, 1]),
            "strokeWidth": _by_kind([0, 0.8, 2.4]),
            "order": {"field": "rank", "type": "quantitative"},
            "tooltip": list(TOOLTIP),
        },
    }


def _by_kind(values: list[float]) -> dict[str, Any]:
    """A channel that distinguishes cloud, candidates and winner; ``values`` are in the order of ``KINDS``."""
    return {"field": "kind", "type": "ordinal", "scale": {"domain": list(KINDS), "range": values}, "legend": None}


def _budget_line(budget_gib: float) -> tuple[dict[str, Any], dict[str, Any]]:
    y = {"field": "budget", "type": "quantitative"}
    data = {"values": [{"budget": budget_gib, "text": f"budget {budget_gib:.1f} GiB"}]}
    line = {"type": "rule", "strokeDash": [5, 4], "color": "currentColor", "opacity": 0.7}
    words = {"type": "text", "align": "right", "baseline": "bottom", "dy": -4, "dx": -6}
    named = {"x": {"value": "width"}, "y": y, "text": {"field": "text"}}
    return {"data": data, "mark": line, "encoding": {"y": y}}, {"data": data, "mark": words, "encoding": named}


def _dot(dot: Dot) -> dict[str, Any]:
    return {
        "strategy": dot.label,
        "scheme": dot.scheme,
        "remat": dot.remat,
        "devices": dot.devices,
        "step_s": _short(dot.step_s),
        "memory_gib": _short(dot.need_bytes / GIB),
        "fits": "yes" if dot.fits else "no",
        "kind": "priced",
        "rung": "modelled",
        "rank": 0,
    }


def _candidate(run: Run, candidate: Candidate) -> dict[str, Any]:
    strategy, best = candidate.strategy, candidate.best
    winner = run.winner is not None and candidate.strategy == run.winner.strategy
    return {
        "strategy": strategy.label,
        "scheme": scheme_label(strategy),
        "remat": strategy.remat,
        "devices": strategy.devices,
        "step_s": _short(best.step_s),
        "memory_gib": _short(need_bytes(candidate) / GIB),
        "fits": "yes" if best.fits else "no",
        "kind": "winner" if winner else "candidate",
        "rung": best.rung,
        "rank": 2 if winner else 1,
    }


def _short(value: float) -> float:
    """Round to five digits: the cost models have no more, and the page carries hundreds of these."""
    return float(f"{value:.5g}")


def _figures(run: Run) -> Figures:
    rows = tuple(
        (
            str(number),
            candidate.strategy.label,
            format_seconds(candidate.best.step_s),
            format_bytes(need_bytes(candidate)),
            "yes" if candidate.best.fits else "no",
            candidate.best.rung,
        )
        for number, candidate in enumerate(run.shown, start=1)
    )
    return Figures(("#", "strategy", "step", "memory with allowance", "fits", "rung"), rows)
