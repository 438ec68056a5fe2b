"""Memory over a schedule, from XLA's accounts of live ranges and buffers."""

from planner.measure.hlo.buffers import Sources
from planner.measure.hlo.live_memory import memory_curve
from planner.measure.hlo.text import parse_module

RANGES = """HloLiveRange (max 5):
  InstructionSequence:
    0:a
    1:b
    2:c
    3:d
  BufferLiveRange:
    a{}:0-5
    b{}:1-2
    c{}:2-3
    state{1}:1-3
  Live ranges at 2 (peak):
    a{}: 100 bytes (cumulative: 100 bytes)
"""
BUFFERS = """allocation 0: size 100, parameter 0, shape |f32[25]| at ShapeIndex {}:
 value: <1 a @0> (size=100,offset=0): f32[25]{0}
allocation 1: size 300, preallocated-temp:
 value: <2 b @0> (size=40,offset=0): f32[10]{0}
 value: <3 c @0> (size=40,offset=0): f32[10]{0}
 value: <4 state{1} (phi) @0> (size=200,offset=64): f32[50]{0}
"""
TEXT = """HloModule jit_step, num_partitions=1

ENTRY %main (a: f32[25]) -> f32[10] {
  %a = f32[25]{0} parameter(0)
  %b = f32[10]{0} slice(%a), slice={[0:10]}, metadata={op_name="jit(step)/slice" source_file="/x/step.py" source_line=7}
  %c = f32[10]{0} negate(%b)
  ROOT %d = f32[10]{0} negate(%c)
}
"""
NAME = "module_0001.jit_step.after_optimizations"


def curve(folder):
    """The curve of the texts above."""
    return memory_curve(folder, parse_module(TEXT), Sources(TEXT))


def test_arrays_at_one_place_are_one_buffer(tmp_path):
    (tmp_path / f"{NAME}-live-range.txt").write_text(RANGES)
    (tmp_path / f"{NAME}-buffer-assignment.txt").write_text(BUFFERS)
    found = curve(tmp_path)
    # a alone; then a 100 + b 40 + the loop's state 200; at 2 b and c share their place; at 3 as before with c
    assert found.bytes == (100, 340, 340, 340)
    assert (found.peak_bytes, found.peak_at, found.instructions) == (340, 1, 4)
    assert (found.operation, found.line) == ("jit(step)/slice", "step.py:7")


def test_without_live_ranges_there_is_no_curve(tmp_path):
    assert curve(tmp_path) is None
