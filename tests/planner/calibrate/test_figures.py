"""Figures from made-up timings: the law's constants come back, and what cannot be true does not."""

import numpy as np
import pytest

from lcplan.catalog import hardware
from planner.calibrate.figures import findings
from planner.calibrate.fit import Timing
from planner.calibrate.sizes import OPS, probes_of

WHERE = "lcplan calibrate, 2026-11-28, 8 x test, jax 0"
H100 = hardware("dgx-h100")


def steady(seconds: float) -> Timing:
    return Timing((seconds,) * 5)


def seconds_of(probe: dict, *, gemm: float, link: float) -> float:
    """A machine of round numbers: attention at half of ``gemm``, 500 tokens to fill a tile, 3e12 bytes/s, 10 us a call."""
    if probe["kind"] == "gemm":
        return 2.0 * probe["rows"] * probe["inner"] * probe["columns"] / gemm
    if probe["kind"] == "attention":
        work = 4.0 * probe["tokens"] ** 2 * 32 * 128 * (2.5 if probe["backward"] else 1.0)
        return work / (gemm / 2) * (1 + 500 / probe["tokens"])
    if probe["kind"] == "collective":
        share = {"all-reduce": 2.0, "collective-permute": None}.get(probe["op"], 1.0)
        moved = 1.0 if share is None else share * (1 - 1 / probe["members"])
        return 1e-5 + moved * probe["size_bytes"] / link
    return (2 if probe["kind"] == "copy" else 1) * probe["size_bytes"] / 3e12


def measured(*, gemm: float = 6e14, link: float = 3e11, scale: float = 1.0):
    return [(probe, steady(scale * seconds_of(probe, gemm=gemm, link=link))) for probe in probes_of(H100, 8)]


def test_a_machine_of_round_numbers():
    found = findings(measured(), H100, where=WHERE)
    assert found.warnings == ()
    rates = found.rates
    assert rates["gemm_flop_per_s"].value == pytest.approx(6e14)
    assert rates["attention_backward_flop_per_s"].value == pytest.approx(3e14, rel=1e-4)
    assert rates["attention_forward_half_tokens"].value == pytest.approx(500, rel=1e-3)
    assert rates["copy_bytes_per_s"].value == pytest.approx(3e12)
    assert found.host.value == pytest.approx(3e12)
    assert set(rates["collectives"]) == set(OPS)
    for call in rates["collectives"].values():
        assert call["oneway_bytes_per_s"].value == pytest.approx(3e11, rel=1e-3)
        assert call["latency_s"].value == pytest.approx(1e-5, rel=1e-3)
    assert rates["gemm_flop_per_s"].source == f"{WHERE}: 5 shapes, medians of 25 samples, spread 0 %"


def test_what_is_above_the_datasheet_is_not_kept():
    found = findings(measured(gemm=2e15, link=1e12), H100, where=WHERE)
    assert "gemm_flop_per_s" not in found.rates
    assert "gemm_flop_per_s: 2e+15 is above the datasheet's 9.89e+14, so it was not kept" in found.warnings
    assert "collectives" not in found.rates
    assert "copy_bytes_per_s" in found.rates


def test_a_host_link_above_its_datasheets_is_not_kept():
    """Of an H100 no datasheet's figure is in the catalogue; PCI Express 5.0 x16 carries 6.3e10 bytes/s to an H200."""
    found = findings(measured(), hardware("dgx-h200"), where=WHERE)
    assert found.host is None
    assert "host_oneway_bytes_per_s: 3e+12 is above the datasheet's 6.3e+10, so it was not kept" in found.warnings


def test_what_did_not_repeat_is_kept_and_marked():
    shaky = [
        (probe, Timing(tuple(timing.median_s * np.array([0.7, 0.8, 1.0, 1.2, 1.3]))) if probe["kind"] == "copy" else timing)
        for probe, timing in measured()
    ]
    found = findings(shaky, H100, where=WHERE)
    assert found.rates["copy_bytes_per_s"].source.endswith("spread 40 %; UNSURE: a spread of 40 %, the machine was not quiet")
    assert "copy_bytes_per_s: its samples spread over 40 %; measure again on a quiet machine" in found.warnings


def test_a_probe_that_failed_leaves_its_figure_out():
    found = findings([one for one in measured() if one[0]["kind"] == "gemm"], H100, where=WHERE)
    assert list(found.rates) == ["gemm_flop_per_s"]
    assert found.host is None


def test_one_device_has_no_collectives():
    assert {probe["kind"] for probe in probes_of(H100, 1)} == {"gemm", "attention", "copy", "host"}
