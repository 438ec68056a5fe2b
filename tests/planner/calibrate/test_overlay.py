"""The overlay: written whole, read by --hw, and what the laws use from then on."""

import pytest

from cost_models.rates.published import rates_of
from lcplan.catalog import hardware
from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.spec.figure import Figure
from planner.calibrate.figures import Findings
from planner.calibrate.overlay import overlay, write_overlay
from planner.calibrate.run import entry_of

WHERE = "lcplan calibrate, 2026-11-28, 8 x test, jax 0"


def figure(value: float) -> Figure:
    return Figure(value=value, source=WHERE, kind="measured")


CALL = {"latency_s": figure(1e-5), "member_latency_s": figure(0.0), "oneway_bytes_per_s": figure(1e11)}
FINDINGS = Findings({"gemm_flop_per_s": figure(5e14), "collectives": {"all-gather": CALL}}, figure(5e10), ("copy: unsure",))


def test_the_laws_use_what_was_measured_and_nothing_else_changes(tmp_path):
    base = hardware("dgx-h100")
    file = tmp_path / "ours.yaml"
    write_overlay(file, overlay(base, FINDINGS, where=WHERE))
    ours = hardware(str(file))
    rates, published = rates_of(ours), rates_of(base)
    assert rates.gemm.value == 5e14
    assert rates.basis["gemm"] == f"measured: {WHERE}"
    assert rates.collectives["all-gather"].oneway_bytes_per_s == 1e11
    assert (rates.hbm, rates.attention_forward) == (published.hbm, published.attention_forward)
    assert ours.device.host_oneway_bytes_per_s.value == 5e10
    assert ours.name == "ours"
    assert ours.notes[-1] == "WARNING: copy: unsure"
    assert (ours.device.hbm_bytes, ours.devices) == (base.device.hbm_bytes, base.devices)


def test_a_folder_that_is_not_there_is_said_and_nothing_is_left(tmp_path):
    data = overlay(hardware("dgx-h100"), FINDINGS, where=WHERE)
    with pytest.raises(StageFailedError, match=r"No such file or directory; choose another file with --out"):
        write_overlay(tmp_path / "absent" / "ours.yaml", data)
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_found_by_its_drivers_name():
    assert entry_of({"platform": "gpu", "kind": "NVIDIA H100 80GB HBM3"}).name == "dgx-h100"
    assert entry_of({"platform": "gpu", "kind": "NVIDIA H200"}).name == "dgx-h200"  # the driver leaves its memory out
    assert entry_of({"platform": "cpu", "kind": "cpu"}).name == "cpu-host"
    with pytest.raises(BadInputError, match=r"no hardware of the catalogue has 'NVIDIA GTX 1'; name it with --hw"):
        entry_of({"platform": "gpu", "kind": "NVIDIA GTX 1"})
