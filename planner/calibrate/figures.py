"""Rates for the cost model from timings, each with its source; an impossible rate is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cost_models.collectives.network import moved_share
from cost_models.compute.kernels import BACKWARD_ATTENTION_OF_FORWARD, head_dim_ratio
from lcplan.spec.hardware import Figure, HardwareSpec
from planner.calibrate.fit import Timing, non_negative_fit
from planner.calibrate.sizes import OPS, Probe

MOST_SPREAD = 0.20
Measured = Sequence[tuple[Probe, Timing]]
Fields = dict[str, Figure | dict[str, dict[str, Figure]] | str]
BOUNDS = {"datasheet": "datasheet's", "user": "spec's"}
"""Kinds of figures that bound a measured one, in the words of the warning."""


@dataclass(frozen=True)
class Findings:
    """``rates`` as the fields of a spec's ``device.rates``, the host link, and warnings for the reader."""

    rates: Fields
    host: Figure | None
    warnings: tuple[str, ...]


class Judge:
    """Make figures of measured values, and collect warnings about them."""

    def __init__(self, hardware: HardwareSpec, where: str) -> None:
        self.hardware, self.where = hardware, where
        self.warnings: list[str] = []

    def figure(self, name: str, value: float, *, timings: Sequence[Timing], limit: Figure | None = None) -> Figure | None:
        """``value`` with its source; None where it is no number or above the datasheet's limit.

        A value with a spread above ``MOST_SPREAD`` is kept; the source and a warning name the spread.
        """
        if not np.isfinite(value) or value < 0:
            self.warnings.append(f"{name}: the timings give no rate; left out")
            return None
        if limit is not None and limit.kind in BOUNDS and value > limit.value:
            self.warnings.append(f"{name}: {value:.4g} is above the {BOUNDS[limit.kind]} {limit.value:.4g}, so it was not kept")
            return None
        spread = max(one.spread_ratio for one in timings)
        doubt = ""
        if spread > MOST_SPREAD:
            doubt = f"; UNSURE: a spread of {100 * spread:.0f} %, the machine was not quiet"
            self.warnings.append(f"{name}: its samples spread over {100 * spread:.0f} %; measure again on a quiet machine")
        samples = sum(len(one.samples) for one in timings)
        shapes = f"{len(timings)} shapes, medians" if len(timings) > 1 else "median"
        source = f"{self.where}: {shapes} of {samples} samples, spread {100 * spread:.0f} %{doubt}"
        return Figure(value=float(f"{value:.5g}"), source=source, kind="measured")


def findings(measured: Measured, hardware: HardwareSpec, *, where: str) -> Findings:
    """All figures of one calibration; ``where`` names the date, the device and the jax."""
    judge = Judge(hardware, where)
    device = hardware.device
    rates: dict[str, Figure | None] = {"gemm_flop_per_s": _gemm(_of(measured, "gemm"), judge)}
    attention = _of(measured, "attention")
    for which in ("forward", "backward"):
        rates |= _attention([one for one in attention if one[0]["backward"] == (which == "backward")], judge, which=which)
    copy = _of(measured, "copy")
    rates["copy_bytes_per_s"] = _bandwidth(copy, judge, name="copy_bytes_per_s", passes=2.0, limit=device.hbm_bytes_per_s)
    link = device.host_oneway_bytes_per_s
    host = _bandwidth(_of(measured, "host"), judge, name="host_oneway_bytes_per_s", passes=1.0, limit=link)
    kept: Fields = {name: figure for name, figure in rates.items() if figure is not None}
    if attention and "attention_forward_flop_per_s" in kept:
        kept["attention_kernel"] = str(attention[0][0]["kernel"])
    calls = {op: found for op in OPS if (found := _calls(measured, judge, op=op))}
    if calls:
        kept["collectives"] = calls
    return Findings(kept, host, tuple(judge.warnings))


def _of(measured: Measured, kind: str) -> Measured:
    return [one for one in measured if one[0]["kind"] == kind]


def _gemm(measured: Measured, judge: Judge) -> Figure | None:
    """The FLOPs of all shapes over the time of all shapes: the rate of a step that runs each once."""
    if not measured:
        return None
    work = sum(2.0 * probe["rows"] * probe["inner"] * probe["columns"] for probe, _ in measured)
    rate = work / sum(timing.median_s for _, timing in measured)
    timings = [timing for _, timing in measured]
    return judge.figure("gemm_flop_per_s", rate, timings=timings, limit=judge.hardware.device.peak_flop_per_s)


def _attention(measured: Measured, judge: Judge, *, which: str) -> dict[str, Figure | None]:
    """``t = W / R (1 + h / k)`` over the chunks, as in the cost model; R for heads of 128."""
    if len(measured) < 2:
        return {}
    products = BACKWARD_ATTENTION_OF_FORWARD if which == "backward" else 1.0
    probe = measured[0][0]
    tokens = np.array([probe["tokens"] for probe, _ in measured], dtype=np.float64)
    heads, _, head_dim = probe["heads"]
    work = 4.0 * tokens**2 * heads * head_dim * products
    timings = [timing for _, timing in measured]
    each, fill = non_negative_fit(np.stack([work, work / tokens], axis=1), [timing.median_s for timing in timings])
    if not each:
        judge.warnings.append(f"attention_{which}: the time does not grow with the work; left out")
        return {}
    name = f"attention_{which}_flop_per_s"
    achieved = judge.figure(name, 1.0 / each, timings=timings, limit=judge.hardware.device.peak_flop_per_s)
    if achieved is None:
        return {}
    rate = achieved.model_copy(update={"value": achieved.value / head_dim_ratio(float(head_dim))})
    half = Figure(value=round(fill / each, 1), source=achieved.source, kind="measured")
    return {name: rate, f"attention_{which}_half_tokens": half}


def _bandwidth(measured: Measured, judge: Judge, *, name: str, passes: float, limit: Figure | None) -> Figure | None:
    if not measured:
        return None
    probe, timing = measured[0]
    return judge.figure(name, passes * probe["size_bytes"] / timing.median_s, timings=[timing], limit=limit)


def _calls(measured: Measured, judge: Judge, *, op: str) -> dict[str, Figure] | None:
    """``t = a + b (n - 1) + moved / B``, as in the cost model; a permute has one neighbour, whatever the group."""
    rows = [one for one in _of(measured, "collective") if one[0]["op"] == op]
    if not rows:
        return None
    members = np.array([probe["members"] for probe, _ in rows], dtype=np.float64)
    moved = np.array([probe["size_bytes"] for probe, _ in rows]) * moved_share(op, members)
    several = len(set(members)) > 1 and op != "collective-permute"
    columns = [np.ones(len(rows)), members - 1.0, moved] if several else [np.ones(len(rows)), moved]
    found = non_negative_fit(np.stack(columns, axis=1), [timing.median_s for _, timing in rows])
    latency, member, each = (found[0], found[1], found[2]) if several else (found[0], 0.0, found[1])
    timings = [timing for _, timing in rows]
    link = judge.hardware.domain_link.oneway_bytes_per_s
    name = f"collectives.{op}.oneway_bytes_per_s"
    bandwidth = judge.figure(name, 1.0 / each if each else np.inf, timings=timings, limit=link)
    if bandwidth is None:
        return None
    figures: Mapping[str, float] = {"latency_s": latency, "member_latency_s": member}
    return {name: bandwidth.model_copy(update={"value": float(f"{value:.5g}")}) for name, value in figures.items()} | {
        "oneway_bytes_per_s": bandwidth
    }
