"""What a trainer does otherwise: named, with its reason, and priced."""

import pytest

from lcplan.formats.errors import BadInputError
from lcplan.strategy.remat import REMAT_POLICIES
from planner.export.cost import fits_budget
from planner.export.run import export_plan


def differences(export) -> dict:
    return {effect.difference.name: effect for effect in export.cost.effects}


def test_a_ring_becomes_an_all_gather_in_torchtitan_and_the_price_says_so(named_plans):
    export = export_plan(named_plans["8b-256k-gb200"], "torchtitan")
    scheme = differences(export)["scheme"]
    assert (scheme.difference.plan, scheme.difference.trainer) == ("ring-zigzag", "all-gather")
    assert "flex_cp_allgather" in scheme.difference.why
    # Keys and values of the whole sequence on every rank: more memory than a ring's two chunks.
    assert scheme.memory_bytes_change > 0
    assert export.translation.job.strategy.scheme == "all-gather"
    assert export.cost.run.strategy == export.translation.job.strategy


def test_the_effect_of_a_knob_is_the_price_of_that_knob_alone(named_plans):
    export = export_plan(named_plans["8b-256k-gb200"], "torchtitan")
    [effect] = export.cost.effects  # the scheme is the only difference
    step = export.cost.run.estimate["step_s"] - export.cost.planned.estimate["step_s"]
    assert effect.step_s_change == pytest.approx(step)


def test_a_contiguous_ring_is_zigzag_in_megatron(named_plans):
    export = export_plan(named_plans["qwen3-32k"], "megatron")
    assert differences(export)["scheme"].difference.trainer == "ring-zigzag"
    assert differences(export)["scheme"].step_s_change < 0  # balanced work is faster


def test_megatron_keeps_a_bf16_shard_of_the_parameters(named_plans):
    plan = named_plans["8b-256k-gb200"]
    effect = differences(export_plan(plan, "megatron"))["parameters"]
    model = plan.request.model
    vectors = model.layers * 2 * model.d_model + model.d_model
    # bf16, 2 bytes each, of the matrices' 8.03e9 parameters over context 16 x tensor 2
    assert effect.memory_bytes_change == round(2 * (model.parameters - vectors) / 32)
    assert effect.step_s_change is None


def test_whole_logits_are_counted_for_every_sequence_of_a_microbatch(new_plan):
    one = export_plan(new_plan("llama3-8b", "dgx-h100", seq=8192, batch=8, fsdp=8), "megatron")
    two = export_plan(new_plan("llama3-8b", "dgx-h100", seq=8192, batch=16, fsdp=8), "megatron")
    assert differences(one)["loss"].difference.extra_bytes == 0
    # one further sequence: 8192 tokens x 128256 entries, fp32 logits and gradient
    assert differences(two)["loss"].difference.extra_bytes == 8192 * 128256 * 8


def test_remat_maps_to_the_nearest_superset_that_fits_else_to_full(new_plan):
    roomy = new_plan("llama3.1-8b", "gb200-nvl72", seq=16384, batch=16, fsdp=16, remat="save-qkv")
    tight = new_plan("llama3.1-8b", "dgx-h100", seq=262144, batch=1, context=8, remat="save-qkv")
    assert fits_budget(roomy, roomy.strategy.model_copy(update={"remat": "save-all"}))
    assert not fits_budget(tight, tight.strategy.model_copy(update={"remat": "save-all"}))
    assert export_plan(roomy, "accelerate").translation.job.strategy.remat == "save-all"
    assert export_plan(tight, "accelerate").translation.job.strategy.remat == "full"
    assert "off where that fits" in differences(export_plan(tight, "accelerate"))["remat"].difference.why


def test_a_remat_policy_that_the_trainer_has_is_no_difference(new_plan):
    for remat in REMAT_POLICIES:
        plan = new_plan("llama3.1-8b", "gb200-nvl72", seq=16384, batch=16, fsdp=16, remat=remat)
        assert "remat" not in differences(export_plan(plan, "maxtext"))


def test_a_share_that_offloads_is_all_or_nothing_in_a_trainer(new_plan):
    sizes = {"seq": 65536, "batch": 4, "context": 4, "remat": "offload-qkv-proj", "offload_percent": 50}
    plan = new_plan("llama3.1-8b", "gb200-nvl72", **sizes)
    share = differences(export_plan(plan, "maxtext"))["offload-percent"]
    assert (share.difference.plan, share.difference.trainer) == ("50%", "100%")
    assert share.memory_bytes_change < 0
    assert "offload-percent" not in differences(export_plan(plan, "torchtitan"))  # it offloads nothing at all
    module = export_plan(plan, "jax")
    assert "offload-percent" not in differences(module)
    assert "The first 50 % of the layers have ``offloads``" in module.files["train_step.py"]
    assert "else jax.checkpoint_policies.save_only_these_names(*('query', 'key', 'value'))" in module.files["train_step.py"]


def test_deepspeed_shards_where_the_plan_replicates(new_plan):
    export = export_plan(new_plan("llama3-8b", "dgx-h100x2", seq=8192, batch=16, data=2, fsdp=8), "deepspeed")
    effect = differences(export)["data-axis"]
    assert export.translation.job.strategy.mesh.label == "fsdp=16"
    assert effect.memory_bytes_change < 0
    assert '"stage": 3' in export.files["deepspeed.json"]


def test_nvshmem_falls_back_where_the_trainers_jax_has_none(new_plan):
    plan = new_plan("llama3-8b", "gb200-nvl72", seq=262144, context=16, tensor=2, backend="nvshmem")
    export = export_plan(plan, "maxtext")
    assert differences(export)["backend"].difference.trainer == "nccl"
    assert "nvshmem" not in export.files["launch.sh"]
    old = export_plan(plan, "maxtext", jax="0.10.1")  # a Python with the last jax that has it
    assert "backend" not in differences(old)
    assert "--xla_gpu_experimental_enable_nvshmem=true" in old.files["launch.sh"]


def test_a_placement_that_the_trainer_has_not_is_named(new_plan):
    order = ("data", "context", "fsdp", "expert", "tensor")
    plan = new_plan("llama3-8b", "dgx-h100x2", seq=32768, batch=2, fsdp=2, context=8, axis_order=order)
    assert differences(export_plan(plan, "megatron"))["axis-order"].difference.plan == "context, fsdp"
    assert "axis-order" not in differences(export_plan(plan, "maxtext"))
    assert "mesh_axes: [diloco, data, stage, context, fsdp," in export_plan(plan, "maxtext").files["maxtext.yml"]


def test_the_verdict_counts_what_no_law_prices(new_plan):
    plan = new_plan("llama3.1-70b", "dgx-h100x4", seq=65536, batch=4, fsdp=4, tensor=8)
    cost = export_plan(plan, "accelerate").cost
    need = cost.run.estimate["memory_bytes"]["total"] + cost.extra_bytes + cost.run.estimate["allowance_bytes"]
    assert cost.extra_bytes > 0
    assert cost.fits == (need <= plan.request.budget_bytes)


def test_an_all_to_all_beyond_the_kv_heads_becomes_a_ring_in_megatron(new_plan):
    plan = new_plan("llama3-8b", "gb200-nvl72", seq=262144, context=16, tensor=2, scheme="ulysses")
    translation = export_plan(plan, "megatron").translation
    assert translation.job.strategy.scheme == "ring-zigzag"
    difference = next(d for d in translation.differences if d.name == "scheme")
    assert (difference.plan, difference.trainer) == ("ulysses", "ring-zigzag")
    assert "does not replicate key/value heads" in difference.why
    within = new_plan("llama3-8b", "gb200-nvl72", seq=262144, context=4, tensor=2, scheme="ulysses")
    assert export_plan(within, "megatron").translation.job.strategy.scheme == "ulysses"


@pytest.mark.parametrize(
    ("trainer", "model", "hw", "strategy", "reason"),
    [
        ("maxtext", "llama3-8b", "cpu-host", {"seq": 4096, "context": 4}, "MaxText 0.2.5 runs on gpu and tpu; cpu-host is cpu"),
        ("megatron", "llama3-8b", "tpu-v5p-64", {"seq": 65536, "context": 8}, "runs on gpu; tpu-v5p-64 is tpu"),
        ("torchtitan", "qwen2.5-7b", "dgx-h100", {"seq": 8192, "context": 8}, "have SwiGLU and no biases"),
        ("deepspeed", "llama3-8b", "dgx-h100x2", {"seq": 65536, "context": 8, "tensor": 2}, "do not compose; use tensor=1"),
        ("accelerate", "llama3-8b", "dgx-h100", {"seq": 8192, "tensor": 8}, "needs dp_shard x cp above 1"),
        ("levanter", "llama3-8b", "dgx-h100", {"seq": 65536, "context": 8}, "gathers queries, keys and values of the whole"),
        ("maxtext", "llama3-8b", "tpu-v5p-64", {"seq": 33280, "context": 32}, r"32\^2 = 1024 does not divide 33280"),
        ("maxtext", "llama3-8b", "gb200-nvl72", {"seq": 65536, "tensor": 16}, "MaxText replicates none; use 1, 2, 4 or 8"),
    ],
)
def test_what_a_trainer_cannot_run_is_refused_with_the_reason(new_plan, trainer, model, hw, strategy, reason):
    plan = new_plan(model, hw, loss_chunk_tokens=16, **strategy)
    with pytest.raises(BadInputError, match=reason):
        export_plan(plan, trainer)


def test_an_unknown_trainer_is_refused_with_the_nearest(named_plans):
    with pytest.raises(BadInputError, match="no trainer 'maxtxt'; did you mean 'maxtext'"):
        export_plan(named_plans["8b-8k-h100"], "maxtxt")


def test_maxtext_balances_an_all_gather_only_where_chunks_pair(new_plan):
    """utils/max_utils.py, ``reorder_sequence``: an odd context is refused when the first batch is made."""
    sizes = {"batch": 1, "seq": 3 * 16384, "scheme": "all-gather"}
    odd = export_plan(new_plan("llama3.2-3b", "dgx-h100", context=3, **sizes), "maxtext")
    assert "context_parallel_load_balance: false" in odd.files["maxtext.yml"]
    assert differences(odd)["load-balance"].difference.trainer == "contiguous chunks, the last works longest"
    even = export_plan(new_plan("llama3.2-3b", "dgx-h100", context=6, **sizes), "maxtext")
    assert "context_parallel_load_balance: true" in even.files["maxtext.yml"]
    assert "load-balance" not in differences(even)
    with pytest.raises(BadInputError, match="needs an even context, not 3"):
        export_plan(new_plan("llama3.2-3b", "dgx-h100", context=3, **sizes | {"scheme": "ring-zigzag"}), "maxtext")


def test_whether_the_exported_file_fits_is_decided_by_the_trainers_own_step(new_plan):
    """huggingface/accelerate#3647: whole logits, 14 bytes each of 32768 x 152064, are 65 GiB of Qwen2.5-32B's step."""
    plan = new_plan("qwen2.5-32b", "dgx-h100x2", seq=32768, batch=16, fsdp=16, remat="full")
    cost = export_plan(plan, "accelerate").cost
    assert cost.planned.estimate["fits"]
    assert cost.own is not None
    assert cost.own.estimate["memory_bytes"]["logits_loss"] == pytest.approx(14 * 32768 * 152064)
    assert not cost.fits


def test_a_trainer_in_jax_is_priced_as_the_laws_price_the_step(new_plan):
    plan = new_plan("llama3-8b", "dgx-h100", seq=8192, batch=8, fsdp=8)
    assert export_plan(plan, "maxtext").cost.own is None
