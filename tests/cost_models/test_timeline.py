"""The timeline of an executable: it is the clock of its time, drawn."""

from itertools import pairwise

import pytest

from cost_models.executable.schedule import execution_time
from cost_models.executable.timeline import COMPUTE, NETWORK, timeline
from lcplan.catalog import hardware
from lcplan.evidence.execution import Done, Execution, Kernel, Loop, Message

PRODUCT = Kernel(kind="product", name="product", flop=4e12, bytes=1e8)
COPY = Kernel(kind="memory", name="fusion", bytes=4e9)
GATHER = Message(op="all-gather", axis="x", bytes=2**28, members=8, number=1)
H100 = hardware("dgx-h100")


def drawn(*items):
    """The spans and the step time of these operations."""
    execution = Execution(items=items)
    return timeline(execution, H100, devices=8), execution_time(execution, H100, devices=8).step_s


def test_the_last_span_ends_with_the_step():
    spans, step_s = drawn(COPY, Loop(trips=5, body=(GATHER, PRODUCT, Done(number=1), COPY)), PRODUCT)
    assert max(one.end_s for one in spans) == pytest.approx(step_s)
    assert {one.stream for one in spans} == {COMPUTE, NETWORK}
    for stream in (COMPUTE, NETWORK):
        own = [one for one in spans if one.stream == stream]
        assert all(a.end_s <= b.start_s * (1 + 1e-9) for a, b in pairwise(own))


def test_a_collective_is_beside_the_work_that_hides_it():
    spans, _ = drawn(GATHER, PRODUCT, Done(number=1))
    (gather,) = (one for one in spans if one.stream == NETWORK)
    (product,) = (one for one in spans if one.stream == COMPUTE)
    assert gather.start_s == product.start_s == 0.0
    assert gather.part == "all-gather over x"


def test_later_runs_of_a_loop_are_one_long_run():
    spans, step_s = drawn(Loop(trips=4, body=(PRODUCT, COPY)))
    assert [one.runs for one in spans] == [1, 1, 3, 3]
    lengths = [one.end_s - one.start_s for one in spans]
    assert lengths[2:] == pytest.approx([3 * lengths[0], 3 * lengths[1]])
    assert sum(lengths) == pytest.approx(step_s)
