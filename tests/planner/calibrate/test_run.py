"""The whole way, with few and small probes on two host devices."""

import pytest

from lcplan.catalog import hardware
from lcplan.formats.errors import StageFailedError
from planner.calibrate import run
from planner.calibrate.run import calibrate
from planner.measure.targets.toolchain import probe

HOSTS = {"kernel": "blockwise"}
SMALL = [
    {"kind": "gemm", "rows": 64, "inner": 64, "columns": 64, "dtype": "float32"},
    {"kind": "attention", "tokens": 64, "heads": [2, 1, 8], "dtype": "float32"} | HOSTS | {"block": 32, "backward": True},
    {"kind": "copy", "size_bytes": 2**16},
    {"kind": "host", "size_bytes": 2**16},
    *(
        {"kind": "collective", "op": op, "size_bytes": size, "members": 2}
        for op in ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "collective-permute")
        for size in (2**10, 2**18)
    ),
    {"kind": "attention", "tokens": 64, "heads": [3, 2, 8], "dtype": "float32"} | HOSTS | {"block": 0, "backward": False},
]


@pytest.mark.slow
def test_every_probe_runs_and_one_that_cannot_is_a_warning(monkeypatch):
    monkeypatch.setattr(run, "probes_of", lambda base, devices: SMALL)
    seen = []
    found = calibrate("cpu-host", probe(), finished=lambda number, total: seen.append((number, total)))
    assert seen == [(number, len(SMALL)) for number in range(1, len(SMALL) + 1)]
    assert {"gemm_flop_per_s", "copy_bytes_per_s"} <= set(found.findings.rates)
    assert found.device.startswith("8 x cpu (")
    failed = [warning for warning in found.findings.warnings if "did not run" in warning]
    assert len(failed) == 1
    assert failed[0].startswith("attention (tokens=64, heads=[3, 2, 8]")
    assert found.base == hardware("cpu-host")


def test_hardware_that_is_not_at_hand_is_said():
    with pytest.raises(StageFailedError, match="tpu-v5e-8: no such devices at hand"):
        calibrate("tpu-v5e-8", probe(), finished=lambda number, total: None)
