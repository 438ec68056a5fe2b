"""Time of an executable's operations: sums worked by hand, overlap, loops and branches."""

import pytest

from cost_models.executable.kernels import OperationCost
from cost_models.executable.schedule import execution_time
from cost_models.rates.published import rates_of
from lcplan.catalog import hardware
from lcplan.evidence.execution import Branch, Done, Execution, Kernel, Loop, Message

H100 = hardware("dgx-h100")
RATES = rates_of(H100)
PRODUCT = Kernel(kind="product", name="product", flop=1e12, bytes=1e6)
PRODUCT_S = 1e12 / RATES.gemm.value
GATHER = Message(op="all-gather", axis="data", bytes=2**30, members=8, inner=8)
GATHER_S = OperationCost(H100, RATES, 8).message_seconds(GATHER)


def seconds(*items):
    return execution_time(Execution(items=items), H100, devices=8)


def test_kernels_add_up():
    copy = Kernel(kind="memory", name="copy", bytes=1e9, calls=3)
    found = seconds(PRODUCT, PRODUCT, copy)
    assert found.parts["matrix products"] == pytest.approx(2 * PRODUCT_S)
    assert found.parts["memory-bound work"] == pytest.approx(3e9 / RATES.hbm.value)


def test_synchronous_collective_is_exposed():
    assert seconds(PRODUCT, GATHER).parts["communication over data"] == pytest.approx(GATHER_S)


def test_products_hide_an_asynchronous_collective():
    begun = GATHER.model_copy(update={"number": 1})
    many = PRODUCT.model_copy(update={"calls": 10})
    assert seconds(begun, many, Done(number=1)).step_s == pytest.approx(10 * PRODUCT_S)
    found = seconds(begun, PRODUCT, Done(number=1))
    assert found.step_s == pytest.approx(max(GATHER_S, PRODUCT_S))
    (message,) = found.messages
    assert message.total_s == pytest.approx(GATHER_S)
    assert message.exposed_s == pytest.approx(max(0.0, GATHER_S - PRODUCT_S))


def test_collectives_take_turns_on_the_network():
    first, second = (GATHER.model_copy(update={"number": number}) for number in (1, 2))
    assert seconds(first, second, Done(number=1), Done(number=2)).step_s == pytest.approx(2 * GATHER_S)


def test_a_collective_that_nothing_waits_for_ends_with_its_computation():
    assert seconds(GATHER.model_copy(update={"number": 1})).step_s == pytest.approx(GATHER_S)


def test_loops_repeat_their_body():
    loop = Loop(trips=5, body=(PRODUCT, Loop(trips=3, body=(GATHER,))))
    found = seconds(loop)
    assert found.step_s == pytest.approx(5 * PRODUCT_S + 15 * GATHER_S)
    assert found.messages[0].calls == 15


def test_the_slowest_branch_counts():
    assert seconds(Branch(bodies=((PRODUCT,), (PRODUCT, PRODUCT), ()))).step_s == pytest.approx(2 * PRODUCT_S)


def test_fp32_products_take_twice_the_time_on_a_gpu_and_once_on_a_tpu():
    wide = PRODUCT.model_copy(update={"dtype": "f32"})
    assert seconds(wide).step_s == pytest.approx(2 * PRODUCT_S)
    tpu = hardware("tpu-v5e-8")
    times = [execution_time(Execution(items=(one,)), tpu, devices=8).step_s for one in (PRODUCT, wide)]
    assert times[0] == times[1]


def test_a_host_hides_no_collective():
    host, begun = hardware("cpu-host"), GATHER.model_copy(update={"number": 1})
    found = execution_time(Execution(items=(begun, PRODUCT, Done(number=1))), host, devices=8)
    assert found.parts["communication over data"] > 0
