from dataclasses import replace

import numpy as np
import pytest

from cost_models.attention.work import RingSteps
from cost_models.collectives.contention import (
    by_nccl,
    hidden_contention_seconds,
    hop_contention_seconds,
    multiprocessor_share,
    tensor_contention_seconds,
    transit_bytes,
)
from cost_models.estimate import estimate
from cost_models.inputs.layout import Layout
from cost_models.inputs.program import PROGRAMS
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.rates.published import rates_for
from cost_models.time.step import StepTime
from lcplan.catalog import hardware, model
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy


def layout_of(*strategies, machine="gb200-nvl72"):
    spec = hardware(machine)
    work = Workload(seq_len=262144, global_batch=1)
    setting = Setting(model=model("llama3-8b"), hardware=spec, workload=work, budget_bytes=spec.usable_bytes)
    return Layout(setting, StrategyTable.from_strategies(strategies))


def ring(backend, *, tensor=1, scheme="ring", context=16):
    return Strategy(mesh=Mesh(context=context, tensor=tensor), scheme=scheme, backend=backend)


def test_only_rings_by_nccl_take_multiprocessors():
    layout = layout_of(
        ring("nccl"), ring("nvshmem"), ring("symmetric"), ring("nccl", scheme="all-gather"), ring("nccl", context=1)
    )
    assert by_nccl(layout).tolist() == [True, False, False, False, False]


def test_a_permute_holds_32_of_152_multiprocessors_of_a_gb200_and_16_of_108_of_an_a100():
    assert multiprocessor_share(layout_of(ring("nccl"))) == 32 / 152
    assert multiprocessor_share(layout_of(ring("nccl"), machine="dgx-a100-80x4")) == 16 / 108  # 12 links, not 18
    assert multiprocessor_share(layout_of(Strategy(mesh=Mesh(), backend="ici"), machine="tpu-v5p-64")) == 0.0


def test_a_hop_costs_its_share_for_as_long_as_it_runs_beside_the_kernel():
    layout = layout_of(ring("nccl"), ring("nccl"), ring("nvshmem"))
    hop, kernel = np.array([100e-6, 100e-6, 100e-6]), np.array([1e-3, 40e-6, 1e-3])
    lost = hop_contention_seconds(layout, hop_s=hop, kernel_s=kernel)
    share = 32 / 152
    assert lost == pytest.approx([share * 100e-6, share * 40e-6, 0.0])


def test_beside_a_tensor_axis_nccl_takes_the_fitted_share_of_attention():
    layout = layout_of(ring("nccl", tensor=2), ring("nccl"), ring("nvshmem", tensor=2))
    steps = RingSteps(np.full(3, 1.0), np.full(3, 2.0), np.full(3, 15.0))
    share = layout.setting.constants.nccl_ring_contention
    assert tensor_contention_seconds(layout, steps) == pytest.approx([share * 31.0, 0.0, 0.0])


def test_a_step_of_pytorch_has_no_share_that_was_fitted_on_xla():
    layout = layout_of(ring("nccl", tensor=2))
    steps = RingSteps(np.full(1, 1.0), np.full(1, 2.0), np.full(1, 15.0))
    for name, program in PROGRAMS.items():
        lost = tensor_contention_seconds(Layout(replace(layout.setting, program=program), layout.table), steps)
        assert (lost[0] > 0) == (program.runtime == "xla"), name


def test_a_backend_that_puts_by_copy_engine_is_never_slower():
    pairs = [(t, c) for t in (1, 2) for c in (2, 8, 32)]
    layouts = [layout_of(ring(b, tensor=t, context=c)) for t, c in pairs for b in ("nccl", "nvshmem")]
    steps = [float(estimate(x.setting, x.table).step_s[0]) for x in layouts]
    assert all(nvshmem < nccl for nccl, nvshmem in zip(steps[::2], steps[1::2], strict=True))


def test_what_hides_collectives_pays_for_their_blocks():
    layout = layout_of(ring("nccl"), ring("nccl"))
    assert hidden_contention_seconds(layout, np.array([1.0, -1e-15])) == pytest.approx([24 / 152, 0.0])
    tpu = layout_of(Strategy(mesh=Mesh(), backend="ici"), machine="tpu-v5p-64")
    assert hidden_contention_seconds(tpu, np.array([1.0]))[0] == 0.0


def test_on_a_torus_weights_in_flight_take_the_memory_that_products_use():
    # An all-gather's byte is written and read, a partial sum's read once more; what is not hidden takes nothing.
    spec = hardware("tpu-v6e-256")
    work = Workload(seq_len=8192, global_batch=256)
    table = StrategyTable.from_strategies([Strategy(mesh=m, backend="ici") for m in (Mesh(fsdp=256), Mesh(data=256))])
    matrices = 32 * model("llama3-8b").layer_matrix_parameters
    gathered, scattered = 2 * 2 * (2 * matrices), 3 * (4 * matrices)  # two bf16 gathers, one fp32 scatter
    # The step's own scatters run beside nothing under libtpu; another trainer's flags may let them.
    for name, moved in (("lcplan", gathered), ("maxtext", gathered + scattered)):
        setting = Setting(model("llama3-8b"), spec, work, spec.usable_bytes, program=PROGRAMS[name])
        times = StepTime(Layout(setting, table), rates_for(setting))
        whole = moved / times.rates.hbm.value
        assert 0.9 * whole < times.contention[0] <= whole
        assert times.contention[1] == 0.0
    assert transit_bytes("all-to-all", np.array(5.0)) == 0.0
