from dataclasses import replace

import numpy as np
import pytest

from cost_models.estimate import allowance_bytes, estimate, memory_model, pool_slack_bytes
from cost_models.inputs.layout import Layout
from cost_models.inputs.program import PROGRAMS
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.memory.lockstep import OwnMemory
from cost_models.memory.parts import PHASES
from cost_models.memory.pytorch import LOGIT_BYTES, RESERVED_OF_ALLOCATED, WORKSPACE_BYTES, TorchMemory
from lcplan.catalog import hardware, model
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy

LLAMA = model("llama3-8b")


def layout_of(program, *, mesh, remat="save-all", seq_len=8192, batch=16):
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


def test_zero_two_splits_gradients_as_the_optimizer():
    layout = layout_of("megatron", mesh=Mesh(data=16))
    setting = layout.setting
    split = replace(setting, program=setting.program.model_copy(update={"gradients_over": "optimizer"}))
    assert TorchMemory(replace(layout, setting=split)).grads[0] == pytest.approx(4.0 * LLAMA.parameters / 16)


def test_logits_of_a_whole_microbatch_have_four_copies():
    layout = layout_of("torch-fsdp", mesh=Mesh(fsdp=16))
    parts, total, _ = TorchMemory(layout).parts()
    assert parts["logits_loss"][0] == pytest.approx(LOGIT_BYTES * 8192 * 128256)
    assert total[0] == pytest.approx(sum(part[0] for part in parts.values()))


def test_an_eager_loop_keeps_the_bf16_logits_and_hugging_faces_the_fp32_ones():
    kept = {}
    for name in ("torch-fsdp", "torch-eager", "transformers"):
        kept[name] = TorchMemory(layout_of(name, mesh=Mesh(fsdp=16))).phases()["loss"]["logits_loss"][0]
    assert kept["torch-eager"] - kept["torch-fsdp"] == pytest.approx(2 * 8192 * 128256)
    assert kept["transformers"] - kept["torch-fsdp"] == pytest.approx(4 * 8192 * 128256)


def test_the_sharded_head_is_there_whole_with_its_gradient():
    # bf16 weights and bf16 gradient, and the fp32 copy that is reduced: 2 + 2 + 4 bytes of each of V D elements
    held = TorchMemory(layout_of("torch-fsdp", mesh=Mesh(fsdp=16))).phases()["loss"]
    assert held["gathered_weights"][0] + held["collective_buffers"][0] == pytest.approx(8 * 128256 * 4096)
    alone = TorchMemory(layout_of("torch-fsdp", mesh=Mesh(data=16))).phases()["loss"]
    assert alone["gathered_weights"][0] == 0
    assert alone["collective_buffers"][0] == 2 * 128256 * 4096  # the product's own result, before it is added
    fused = TorchMemory(layout_of("nemo", mesh=Mesh(data=16))).phases()["loss"]
    assert fused["collective_buffers"][0] == 0


def test_a_layers_feed_forward_is_gone_when_its_attention_runs_backward():
    layout = layout_of("torch-fsdp", mesh=Mesh(context=8), remat="full", batch=1, seq_len=131072)
    phases = TorchMemory(layout).phases()
    wide = 2 * 16384 * 14336
    assert phases["feed_forward_backward"]["working_set"][0] > 5 * wide
    assert phases["attention_backward"]["working_set"][0] < 5 * wide
    assert "kv_ring" not in phases["feed_forward_backward"]


def test_copies_of_gradients_bind_where_activations_are_few():
    # InternEvo: 8 bytes of each of 8.03e9 weights over 8 devices, where tiny batches need less
    _, total, phase = TorchMemory(layout_of("internevo", mesh=Mesh(fsdp=8), remat="full", seq_len=512, batch=8)).parts()
    assert PHASES[phase[0]] == "update"
    # bf16 and fp32 weights, two fp32 moments, fp32 gradients, copies, 16 bytes of each of 512 tokens, cuBLAS's workspaces
    state = (2 + 4 + 8 + 4 + 8) * LLAMA.parameters / 8
    assert total[0] == pytest.approx(state + 16 * 512 + WORKSPACE_BYTES["hopper"])


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


def test_unfused_scores_are_of_a_ranks_queries_and_all_keys():
    program = PROGRAMS["megatron"].model_copy(update={"attention": "unfused"})
    layout = layout_of("megatron", mesh=Mesh(data=4, context=4), seq_len=2048)
    setting = Setting(LLAMA, layout.setting.hardware, layout.setting.workload, layout.setting.budget_bytes, program)
    fused, unfused = (TorchMemory(one).layer_activations[0] for one in (layout, Layout(setting, layout.table)))
    assert unfused - fused == pytest.approx(5.0 * layout.tokens[0] * 2048 * 32)
    assert layout.tokens[0] == layout.sequences[0] * 512


def test_unfused_attention_holds_the_cotangents_of_its_scores_and_repeats_selected_ones():
    base = PROGRAMS["megatron"].model_copy(update={"attention": "unfused"})
    layout = layout_of("megatron", mesh=Mesh(data=16), seq_len=2048)
    held = []
    for program in (base, base.model_copy(update={"recompute_scores": True})):
        one = Layout(Setting(LLAMA, layout.setting.hardware, layout.setting.workload, 0, program), layout.table)
        held.append(TorchMemory(one).phases()["attention_backward"]["working_set"][0])
    scores = layout.tokens[0] * 2048 * 32
    fused = TorchMemory(layout).phases()["attention_backward"]["working_set"][0]
    assert [one - fused for one in held] == pytest.approx([4.0 * scores, 9.0 * scores])  # kept scores are saved activations


def test_the_allocators_pool_counts_against_the_budget():
    layout = layout_of("torch-fsdp", mesh=Mesh(fsdp=16))
    assert pool_slack_bytes(layout, np.array([100.0])) == pytest.approx([100.0 * (RESERVED_OF_ALLOCATED - 1)])
    assert pool_slack_bytes(layout_of("maxtext", mesh=Mesh(fsdp=16)), np.array([100.0]))[0] == 0.0


def test_the_runtime_decides_the_law():
    assert isinstance(memory_model(layout_of("torch-fsdp", mesh=Mesh(fsdp=16))), TorchMemory)
    assert isinstance(memory_model(layout_of("maxtext", mesh=Mesh(fsdp=16))), OwnMemory)


def test_simumax_llama3_70b_of_12_layers_over_tensor_2():
    # MooreThreads/SimuMax, docs/b200: 60.68 GiB allocated at the peak, tp2 dp4, sequence 4096, microbatch 1
    spec = hardware("dgx-b200")
    small = model("llama3-70b").model_copy(update={"layers": 12})
    work = Workload(seq_len=4096, global_batch=16)
    setting = Setting(small, spec, work, spec.usable_bytes, PROGRAMS["megatron"])
    strategy = Strategy(mesh=Mesh(data=4, tensor=2), remat="save-all", microbatches=4)
    total = estimate(setting, StrategyTable.from_strategies([strategy])).total_bytes[0]
    assert total == pytest.approx(60.68 * 2**30, rel=0.03)


def test_megatrons_loss_works_in_the_logits_fp32_copy():
    parts, _, _ = TorchMemory(layout_of("megatron", mesh=Mesh(data=16))).parts()
    assert parts["logits_loss"][0] == pytest.approx(6 * 8192 * 128256)


def test_dropout_keeps_two_masks_a_layer():
    layout = layout_of("megatron", mesh=Mesh(data=16))
    setting = replace(layout.setting, program=layout.setting.program.model_copy(update={"dropout": True}))
    masked = TorchMemory(Layout(setting, layout.table))
    assert masked.layer_activations[0] - TorchMemory(layout).layer_activations[0] == pytest.approx(2 * 8192 * 4096)


def test_workspaces_and_buckets_are_there_all_the_time():
    plain, bucketed = (
        TorchMemory(layout_of(name, mesh=Mesh(fsdp=16), remat="full")).parts() for name in ("torch-fsdp", "deepspeed")
    )
    assert bucketed[1][0] - plain[1][0] == pytest.approx(9e9)
    one = TorchMemory(layout_of("deepspeed", mesh=Mesh())).parts()[0]
    assert one["collective_buffers"][0] < 9e9  # nothing to send
    memory = TorchMemory(layout_of("torch-fsdp", mesh=Mesh(fsdp=16)))
    phase = PHASES[int(memory.parts()[2][0])]
    assert memory.parts()[0]["working_set"][0] - memory.phases()[phase]["working_set"][0] == WORKSPACE_BYTES["hopper"]


def test_a_double_ring_has_four_more_communicators():
    rings = [allowance_bytes(layout_of(name, mesh=Mesh(context=16))) for name in ("torch-fsdp", "loongtrain")]
    size = hardware("dgx-h100x2").allowance.communicator_bytes.value
    assert float(rings[1][0] - rings[0][0]) == pytest.approx(4 * size)
    none = [allowance_bytes(layout_of(name, mesh=Mesh(fsdp=16))) for name in ("torch-fsdp", "loongtrain")]
    assert float(none[1][0]) == float(none[0][0])


def test_norms_that_are_written_out_keep_fp32_copies():
    # two norms of 8192 tokens x 4096, fp32, in each of 32 layers
    kept = {name: TorchMemory(layout_of(name, mesh=Mesh(fsdp=16))) for name in ("torch-eager", "transformers")}
    further = kept["transformers"].layer_activations[0] - kept["torch-eager"].layer_activations[0]
    assert further == 2 * 4 * 8192 * 4096


def test_norms_of_queries_and_keys_keep_what_they_take():
    spec, eight = hardware("dgx-h100"), model("qwen3-8b")
    table = StrategyTable.from_strategies([Strategy(mesh=Mesh(fsdp=8), remat="save-all")])
    made = {}
    for name, qk_norm in (("torch-eager", False), ("torch-eager", True), ("transformers", False), ("transformers", True)):
        one = eight.model_copy(update={"qk_norm": qk_norm})
        setting = Setting(one, spec, Workload(seq_len=8192, global_batch=8), spec.usable_bytes, PROGRAMS[name])
        made[name, qk_norm] = TorchMemory(Layout(setting, table)).layer_activations[0]
    # 32 query and 8 key heads of 128: their bf16 input, and of norms that are written out its fp32 copy too
    assert made["torch-eager", True] - made["torch-eager", False] == 2 * 8192 * 40 * 128
    assert made["transformers", True] - made["transformers", False] == (2 + 4) * 8192 * 40 * 128


def test_a_gather_holds_the_whole_sequences_keys_and_values_and_their_gradients():
    setting = layout_of("torch-eager", mesh=Mesh(context=8)).setting
    held = {}
    for scheme in ("all-gather", "ulysses"):
        one = Strategy(mesh=Mesh(fsdp=2, context=8), scheme=scheme, remat="full")
        phases = TorchMemory(Layout(setting, StrategyTable.from_strategies([one]))).phases()
        held[scheme] = phases["attention_backward"]["kv_ring"][0]
    # 8 sequences a rank of 8192 tokens, 8 heads of 128, keys and values, and the gradient of each: bf16
    assert held["all-gather"] == 8 * 8192 * 8 * 128 * 2 * 2 * 2
    assert held["ulysses"] == 0


def test_layer_inputs_on_the_host_are_not_on_the_device():
    here = TorchMemory(layout_of("torch-eager", mesh=Mesh(fsdp=16), remat="full"))
    away = TorchMemory(layout_of("torch-eager", mesh=Mesh(fsdp=16), remat="offload-layer-in"))
    assert here.saved_activations[0] == 32 * 8192 * 4096 * 2
    assert away.saved_activations[0] == 0
