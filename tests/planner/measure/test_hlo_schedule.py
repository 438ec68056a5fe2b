"""What a schedule does with its collectives, from small texts and from real executables."""

from pathlib import Path

import pytest

from planner.measure.hlo.schedule import read_schedule
from planner.measure.hlo.text import parse_module

DATA = Path(__file__).parent / "data"
TEXT = """HloModule m, num_partitions=2

ENTRY %main (p: f32[8]) -> f32[16] {{
  %p = f32[8]{{0}} parameter(0)
  %start = (f32[8]{{0}}, f32[16]{{0}}) all-gather-start({operands}), replica_groups={{{{0,1}}}}, dimensions={{0}}
{between}  ROOT %done = f32[16]{{0}} all-gather-done(%start)
}}
"""
FUSION = "  %work = f32[8]{0} fusion(%p), kind=kLoop, calls=%body\n"
BITCAST = "  %free = f32[2,4]{1,0} bitcast(%p)\n"


@pytest.mark.parametrize(
    ("operands", "between", "wanted"),
    [
        ("%p", FUSION, (1, 1, 0)),
        ("%p", "", (1, 0, 0)),
        ("%p", BITCAST, (1, 0, 0)),  # moves nothing and takes no time
        ("%p, %p", FUSION, (1, 1, 1)),
    ],
)
def test_small_texts(operands, between, wanted):
    found = read_schedule(parse_module(TEXT.format(operands=operands, between=between)))
    assert (found.asynchronous, found.overlapped, found.combined) == wanted


def test_a_ring_on_gpu_hides_its_permutes():
    found = read_schedule(parse_module((DATA / "gpu_ring.hlo").read_text()))
    assert found.asynchronous >= found.overlapped > 0


def test_a_gather_that_libtpu_carries_through_fusions_is_one():
    found = read_schedule(parse_module((DATA / "tpu_async.hlo").read_text()))
    assert 0 < found.overlapped <= found.asynchronous
