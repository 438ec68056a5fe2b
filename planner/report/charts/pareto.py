"""The Pareto scatter: step time against memory, coloured by scheme; survivors stand out from the cloud of what was priced."""

from __future__ import annotations

from typing import Any

from lcplan.units import GIB, format_bytes, format_seconds
from planner.candidate import Candidate
from planner.report.charts.chart import PALETTE, Chart, Figures
from planner.report.cloud import Dot
from planner.run_read import Run

SCHEMES = ("ring", "ring-zigzag", "all-gather", "ulysses", "no context axis")
SHAPES = ("circle", "square", "diamond", "triangle-up", "cross")
KINDS = ("priced", "candidate", "winner")


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
            "Faint dots are priced by the laws; large ones are candidates, on the best evidence there is. Memory includes the "
            "allowance."
        ),
        signals={"scheme": "all", "remat": "all", "fitting": "all"},
    )


def _spec(values: list[dict[str, Any]], budget_gib: float) -> dict[str, Any]:
    keep = (
        "(scheme_filter == 'all' || datum.scheme == scheme_filter) && (remat_filter == 'all' || datum.remat == remat_filter)"
        " && (fitting_filter == 'all' || datum.fits == 'yes')"
    )
    tooltip = [
        {"field": name, "type": kind, "title": title, **({"format": form} if form else {})}
        for name, kind, title, form in (
            ("strategy", "nominal", "strategy", ""),
            ("kind", "nominal", "kind", ""),
            ("step_s", "quantitative", "step [s]", ".4g"),
            ("memory_gib", "quantitative", "memory [GiB]", ".1f"),
            ("devices", "quantitative", "devices", ""),
            ("fits", "nominal", "fits", ""),
            ("rung", "nominal", "rung", ""),
        )
    ]
    shown = [scheme for scheme in SCHEMES if any(value["scheme"] == scheme for value in values)]
    colours = [PALETTE[SCHEMES.index(scheme)] for scheme in shown]
    shapes = [SHAPES[SCHEMES.index(scheme)] for scheme in shown]
    return {
        "width": None,
        "height": 380,
        "params": [{"name": f"{name}_filter", "value": "all"} for name in ("scheme", "remat", "fitting")],
        "data": {"values": values},
        "layer": [
            {
                "transform": [{"filter": keep}],
                "mark": {"type": "point", "filled": True, "stroke": "currentColor"},
                "encoding": {
                    "x": {
                        "field": "step_s",
                        "type": "quantitative",
                        "scale": {"type": "log", "nice": False, "padding": 12},
                        "title": "step time [s], log scale",
                    },
                    "y": {
                        "field": "memory_gib",
                        "type": "quantitative",
                        "scale": {"type": "log", "nice": False, "padding": 12},
                        "title": "memory a device with allowance [GiB], log scale",
                    },
                    "color": {
                        "field": "scheme",
                        "type": "nominal",
                        "scale": {"domain": shown, "range": colours},
                        "title": "scheme",
                    },
                    "shape": {
                        "field": "scheme",
                        "type": "nominal",
                        "scale": {"domain": shown, "range": shapes},
                        "title": "scheme",
                    },
                    "size": {
                        "field": "kind",
                        "type": "ordinal",
                        "scale": {"domain": list(KINDS), "range": [34, 150, 320]},
                        "legend": None,
                    },
                    "opacity": {
                        "field": "kind",
                        "type": "ordinal",
                        "scale": {"domain": list(KINDS), "range": [0.32, 0.95, 1]},
                        "legend": None,
                    },
                    "strokeWidth": {
                        "field": "kind",
                        "type": "ordinal",
                        "scale": {"domain": list(KINDS), "range": [0, 0.8, 2.4]},
                        "legend": None,
                    },
                    "order": {"field": "rank", "type": "quantitative"},
                    "tooltip": tooltip,
                },
            },
            {
                "data": {"values": [{"budget": budget_gib, "text": "budget"}]},
                "mark": {"type": "rule", "strokeDash": [5, 4], "color": "currentColor", "opacity": 0.7},
                "encoding": {"y": {"field": "budget", "type": "quantitative"}},
            },
            {
                "data": {"values": [{"budget": budget_gib, "text": f"budget {budget_gib:.1f} GiB"}]},
                "mark": {"type": "text", "align": "right", "baseline": "bottom", "dy": -4, "dx": -6},
                "encoding": {
                    "x": {"value": "width"},
                    "y": {"field": "budget", "type": "quantitative"},
                    "text": {"field": "text"},
                },
            },
        ],
    }


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
        "scheme": strategy.scheme if strategy.mesh.context > 1 else "no context axis",
        "remat": strategy.remat,
        "devices": strategy.devices,
        "step_s": _short(best.step_s),
        "memory_gib": _short((best.memory_bytes + candidate.estimate["allowance_bytes"]) / GIB),
        "fits": "yes" if best.fits else "no",
        "kind": "winner" if winner else "candidate",
        "rung": best.rung,
        "rank": 2 if winner else 1,
    }


def _short(value: float) -> float:
    """Five digits: more are not in the laws, and the page carries hundreds of these."""
    return float(f"{value:.5g}")


def _figures(run: Run) -> Figures:
    rows = tuple(
        (
            str(number),
            candidate.strategy.label,
            format_seconds(candidate.best.step_s),
            format_bytes(candidate.best.memory_bytes + candidate.estimate["allowance_bytes"]),
            "yes" if candidate.best.fits else "no",
            candidate.best.rung,
        )
        for number, candidate in enumerate(run.shown, start=1)
    )
    return Figures(("#", "strategy", "step", "memory with allowance", "fits", "rung"), rows)
