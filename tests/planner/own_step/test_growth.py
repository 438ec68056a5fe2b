"""The gate: growth of memory, buffers and collectives over a baseline."""

import pytest

from lcplan.evidence.execution import Buffer, StepCompiled
from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.spec.collective import CollectiveUse
from planner.fits.footprint import Footprint
from planner.fits.growth import Growth

GIB = 2**30
GATHER = CollectiveUse(op="all-gather", axis="data", bytes=2**26, calls=64)


def footprint(**changes):
    facts = {
        "rung": "compiled:target",
        "target": "h100 1x1x8",
        "jax": "0.10.1",
        "finished_at": "",
        "compile_s": 1.0,
        "argument_bytes": 2 * GIB,
        "output_bytes": 2 * GIB,
        "temp_bytes": 10 * GIB,
        "alias_bytes": 2 * GIB,
        "total_bytes": 12 * GIB,
        "collectives": (GATHER,),
        "buffers": (Buffer(bytes=GIB, shape="bf16[8,8192,8192]", operation="jit(step)/dot", line="s.py:3"),),
    }
    compiled = StepCompiled(**facts | changes)
    return Footprint.of(compiled, subject="s.py", strategy={"mesh": {"data": 8}}, allowance_bytes=GIB)


def test_what_did_not_grow_passes():
    same = Growth(footprint(), footprint(total_bytes=int(12.2 * GIB), temp_bytes=int(10.2 * GIB)), 0.02)
    assert same.failures == ()
    assert "temp: 10.0 GiB -> 10.2 GiB (+204.8 MiB)" in same.details
    smaller = Growth(footprint(), footprint(total_bytes=6 * GIB, temp_bytes=4 * GIB, collectives=()), 0.02)
    assert smaller.failures == ()


def test_a_tenth_more_memory_fails_and_names_the_buffer():
    copy = Buffer(bytes=2 * GIB, shape="f32[8,8192,8192]", operation="jit(step)/convert_element_type", line="s.py:7")
    grown = Growth(
        footprint(),
        footprint(total_bytes=int(13.2 * GIB), temp_bytes=int(11.2 * GIB), buffers=(copy, *footprint().buffers)),
        0.02,
    )
    assert grown.failures == ("memory grew by 10.0%, from 12.0 GiB to 13.2 GiB; 2.0% is allowed",)
    assert "new at the peak: f32[8,8192,8192] of 2.0 GiB at s.py:7 (jit(step)/convert_element_type)" in grown.details


def test_more_bytes_over_an_axis_fail():
    more = GATHER.model_copy(update={"calls": 96})
    grown = Growth(footprint(), footprint(collectives=(more,)), 0.02)
    assert grown.failures == ("collectives over data move 6.0 GiB per step, before 4.0 GiB",)
    assert "all-gather over data of 64.0 MiB: 64 calls -> 96" in grown.details
    split = (GATHER.model_copy(update={"bytes": 2**25, "calls": 128}),)
    assert Growth(footprint(), footprint(collectives=split), 0.02).failures == ()


def test_baseline_is_kept_and_checked(tmp_path):
    path = tmp_path / "fits.json"
    footprint().save(path)
    assert Footprint.load(path) == footprint()
    path.write_text('{"schema_version": 9}')
    with pytest.raises(BadInputError, match="reads baselines of version 1"):
        Footprint.load(path)


def test_a_failed_compile_and_host_devices_have_no_footprint():
    with pytest.raises(StageFailedError, match="could not be compiled: it broke"):
        footprint(error="it broke")
    with pytest.raises(StageFailedError, match="no figure of the hardware's: no CUDA plugin"):
        footprint(rung="compiled:host", warnings=("no CUDA plugin",))
