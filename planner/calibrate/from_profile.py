"""Rates from a profile: the rates that the plan's estimate rests on, scaled to the measured time of each part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cost_models.rates.published import rates_of
from cost_models.rates.rate import CollectiveRate, Rate
from lcplan import catalog
from lcplan.formats.errors import BadInputError
from lcplan.spec.figure import Figure
from lcplan.spec.hardware import HardwareSpec
from planner.calibrate.figures import Fields, Findings, Judge
from planner.calibrate.fit import Timing
from planner.calibrate.run import Calibration
from planner.inspect.profile.report import ProfileReport

LEAST_SHARE = 0.01
"""Share of the step below which a part's time gives no rate: launches and rounding make most of it."""


def from_profile(report: ProfileReport) -> Calibration:
    """Return the rates of a profiled plan.

    A part's rate is multiplied by its predicted time over its measured one; latencies and half lengths stay.

    Raises
    ------
    BadInputError
        No plan to compare with, hardware that is not the catalogue's, or no part that gives a rate.
    """
    run, candidate = report.run, report.candidate
    if run is None or candidate is None:
        raise BadInputError("--from-profile: give the plan that ran with --plan PLAN|RUN; its estimate names the rates to fit")
    hardware = run.request.hardware
    _check_catalogued(hardware)
    profile = report.profile
    today = datetime.now(UTC).date().isoformat()
    where = f"lcplan calibrate --from-profile, {today}, {profile.steps} steps of {profile.program} on {hardware.name}"
    judge = Judge(hardware, where)
    fields = _Fit(report, judge).fields(hardware, candidate.estimate["time_s"])
    if not fields:
        raise BadInputError(f"--from-profile: no part takes {LEAST_SHARE:.0%} of both the predicted and the measured step")
    return Calibration(hardware, f"{len(profile.devices)} devices", where, Findings(fields, None, tuple(judge.warnings)))


def _check_catalogued(hardware: HardwareSpec) -> None:
    try:
        catalog.hardware(hardware.name)
    except BadInputError:
        raise BadInputError(
            f"--from-profile: the plan's hardware {hardware.name!r} is not in the catalogue; profile a plan of hardware that is"
        ) from None


@dataclass(frozen=True)
class _Fit:
    """The parts of one profile against the rates of its plan."""

    report: ProfileReport
    judge: Judge

    def fields(self, hardware: HardwareSpec, predicted: Mapping[str, float]) -> Fields:
        """Return every rate whose part the profile and the estimate have."""
        rates, device = rates_of(hardware), hardware.device
        peak, memory = device.peak_flop_per_s, device.hbm_bytes_per_s
        found = {
            "gemm_flop_per_s": self._scaled(rates.gemm, "gemm", predicted, limit=peak),
            "attention_forward_flop_per_s": self._scaled(rates.attention_forward, "attention", predicted, limit=peak),
            "attention_backward_flop_per_s": self._scaled(rates.attention_backward, "attention", predicted, limit=peak),
            "copy_bytes_per_s": self._scaled(rates.hbm, "hbm", predicted, limit=memory),
        }
        fields: Fields = {name: figure for name, figure in found.items() if figure is not None}
        if fields.keys() & {"attention_forward_flop_per_s"} and rates.attention_kernel is not None:
            fields["attention_kernel"] = rates.attention_kernel
        calls = {op: figures for op, rate in rates.collectives.items() if (figures := self._call(op, rate))}
        return fields | ({"collectives": calls} if calls else {})

    def _scaled(self, rate: Rate, part: str, predicted: Mapping[str, float], *, limit: Figure) -> Figure | None:
        samples = self.report.profile.part_samples_s.get(part, ())
        expected, measured = predicted.get(part, 0.0), Timing(samples).median_s if samples else 0.0
        if min(expected / sum(predicted.values()), measured / self.report.profile.step_s) < LEAST_SHARE:
            return None
        return self.judge.figure(part, rate.value * expected / measured, timings=[Timing(samples)], limit=limit)

    def _call(self, op: str, rate: CollectiveRate) -> dict[str, Figure] | None:
        """Scale the bandwidth of one kind of collective by all of its time, hidden time included."""
        profile = self.report.profile
        expected = sum(one.transfer_s for one in self.report.transfers if one.op == op)
        each = [samples for (name, _), samples in profile.collective_samples_s.items() if name == op]
        timing = Timing(tuple(sum(step) for step in zip(*each, strict=True)))
        measured = timing.median_s if timing.samples else 0.0
        if not expected or measured < LEAST_SHARE * profile.step_s:
            return None
        link = self.judge.hardware.domain_link.oneway_bytes_per_s
        value = rate.oneway_bytes_per_s * expected / measured
        bandwidth = self.judge.figure(op, value, timings=[timing], limit=link)
        if bandwidth is None:
            return None
        kept = {"latency_s": rate.latency_s, "member_latency_s": rate.member_latency_s}
        source = f"{rate.source}; kept by {self.judge.where}"
        return {
            name: Figure(value=one, source=source, kind="measured" if rate.measured else "fitted") for name, one in kept.items()
        } | {"oneway_bytes_per_s": bandwidth}
