import numpy as np
import pytest

from cost_models.estimate import estimate, memory_law, pool_slack_bytes
from cost_models.layout import Layout
from cost_models.memory import StepMemory
from cost_models.program import PROGRAMS
from cost_models.setting import Setting
from cost_models.table import StrategyTable
from cost_models.torch_memory import LOGIT_BYTES, RESERVED_OF_ALLOCATED, TorchMemory
from lcplan.catalog import hardware, model
from lcplan.strategy import Mesh, Strategy
from lcplan.workload import Workload

LLAMA = model("llama3-8b")


def layout_of(program, *, mesh, remat="none", seq_len=8192, batch=16):
    spec = hardware("dgx-h100x2")
    setting = Setting(LLAMA, spec, Workload(seq_len=seq_len, global_batch=batch), spec.usable_bytes, PROGRAMS[program])
    return Layout(setting, StrategyTable.from_strategies([Strategy(mesh=mesh, remat=remat)]))


def test_fully_sharded_state_is_16_bytes_a_parameter_over_the_shards():
    memory = TorchMemory(layout_of("torch-fsdp", mesh=Mesh(fsdp=16)))
    state = memory.params[0] + memory.optimizer[0] + memory.grads[0]
    assert state == pytest.approx(16.0 * LLAMA.parameters / 16)


def test_a_distributed_optimizer_leaves_weights_and_gradients_whole():
    memory = TorchMemory(layout_of("megatron", mesh=Mesh(data=16)))
    assert memory.params[0] == pytest.approx((2.0 + 4.0 / 16) * LLAMA.parameters)  # bf16, and fp32 split over data
    assert memory.grads[0] == pytest.approx(4.0 * LLAMA.parameters)
    assert memory.optimizer[0] == pytest.approx(8.0 * LLAMA.parameters / 16)


def test_logits_of_a_whole_microbatch_have_four_copies():
    layout = layout_of("torch-fsdp", mesh=Mesh(fsdp=16))
    parts, total, _ = TorchMemory(layout).parts()
    assert parts["logits_loss"][0] == pytest.approx(LOGIT_BYTES * 8192 * 128256)
    assert total[0] == pytest.approx(sum(part[0] for part in parts.values()))


def test_recomputation_keeps_one_stream_a_layer():
    kept = TorchMemory(layout_of("torch-fsdp", mesh=Mesh(fsdp=16), remat="full")).saved_activations[0]
    assert kept == pytest.approx(32 * 2 * 8192 * 4096)
    assert kept < TorchMemory(layout_of("torch-fsdp", mesh=Mesh(fsdp=16))).saved_activations[0] / 10


def test_unfused_attention_keeps_five_bytes_a_score():
    fused = TorchMemory(layout_of("megatron", mesh=Mesh(data=16), seq_len=2048)).layer_activations[0]
    program = PROGRAMS["megatron"].model_copy(update={"attention": "unfused"})
    layout = layout_of("megatron", mesh=Mesh(data=16), seq_len=2048)
    setting = Setting(LLAMA, layout.setting.hardware, layout.setting.workload, layout.setting.budget_bytes, program)
    unfused = TorchMemory(Layout(setting, layout.table)).layer_activations[0]
    assert unfused - fused == pytest.approx(5.0 * 2048 * 2048 * 32)


def test_the_allocators_pool_counts_against_the_budget():
    layout = layout_of("torch-fsdp", mesh=Mesh(fsdp=16))
    assert pool_slack_bytes(layout, np.array([100.0])) == pytest.approx([100.0 * (RESERVED_OF_ALLOCATED - 1)])
    assert pool_slack_bytes(layout_of("maxtext", mesh=Mesh(fsdp=16)), np.array([100.0]))[0] == 0.0


def test_the_runtime_decides_the_law():
    assert isinstance(memory_law(layout_of("torch-fsdp", mesh=Mesh(fsdp=16))), TorchMemory)
    assert isinstance(memory_law(layout_of("maxtext", mesh=Mesh(fsdp=16))), StepMemory)


def test_simumax_llama3_70b_of_12_layers_over_tensor_2():
    # MooreThreads/SimuMax, docs/b200: 60.68 GiB allocated at the peak, tp2 dp4, sequence 4096, microbatch 1
    spec = hardware("dgx-b200")
    small = model("llama3-70b").model_copy(update={"layers": 12})
    work = Workload(seq_len=4096, global_batch=16)
    setting = Setting(small, spec, work, spec.usable_bytes, PROGRAMS["megatron"])
    strategy = Strategy(mesh=Mesh(data=4, tensor=2), remat="none", microbatches=4)
    total = estimate(setting, StrategyTable.from_strategies([strategy])).total_bytes[0]
    assert total == pytest.approx(60.68 * 2**30, rel=0.03)
