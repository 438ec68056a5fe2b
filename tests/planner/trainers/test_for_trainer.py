"""``--for TRAINER``: the space holds what the trainer runs as it is, and nothing else."""

import numpy as np
import pytest

from cost_models.inputs.table import StrategyTable
from lcplan.formats.errors import BadInputError
from lcplan.strategy import Mesh, Strategy
from planner.request.filters import Filters
from planner.space.analysis import setting_of
from planner.trainers import Job, all_trainers, trainer, trainer_names
from planner.trainers.common.restrict import restrict, rules_for
from planner.trainers.common.translate import translate
from planner.workloads.points import analyse, valid_points


def narrowed(request, name: str):
    target = trainer(name)
    filters = restrict(request.filters, target, hardware=request.hardware, model=request.model)
    return request.model_copy(update={"filters": filters, "trainer": name})


@pytest.mark.parametrize("name", trainer_names())
def test_every_point_of_the_space_translates_without_a_change(ask, name):
    request = narrowed(ask(devices=32), name)
    table = valid_points(request, ("nccl",))
    assert len(table) > 10  # DeepSpeed has Ulysses and ZeRO-3 alone
    for row in np.linspace(0, len(table) - 1, 60).astype(int):
        strategy = table.strategy(int(row))
        job = Job(request.model, request.hardware, request.workload, strategy)
        translation = translate(trainer(name), job, fits=lambda _: True)
        assert translation.job.strategy == strategy, strategy.label


@pytest.mark.parametrize("name", trainer_names())
def test_rejected_strategies_are_counted_under_the_trainers_rules(ask, name):
    free, bound = ask(devices=32), narrowed(ask(devices=32), name)
    if trainer(name).own_step:
        assert analyse(bound, ("nccl",)).enumerated == analyse(free, ("nccl",)).enumerated
        return
    analysis = analyse(bound, ("nccl",))
    own = {rule for rule in analysis.rejected.counts if rule.startswith(f"{name}-")}
    assert own
    for rule in own:
        assert analysis.rejected.example(analysis.setting, rule)
    assert analysis.enumerated == analysis.rejected.total + len(analysis.table)


def test_a_whole_loss_is_the_only_loss(ask):
    table = valid_points(narrowed(ask(devices=32), "megatron"), ("nccl",))
    assert np.array_equal(table.loss_chunk_tokens, 262144 // table.context)


def test_what_does_not_fit_in_the_trainers_own_memory_is_rejected(ask):
    """Whole logits of Transformers, 14 bytes each: Qwen2.5-32B at 32k needs a tensor or context axis on GPUs of 80 GB."""
    free = ask("qwen2.5-32b", "dgx-h100x2", seq=32768, batch=16, devices=16)
    analysis = analyse(narrowed(free, "accelerate"), ("nccl",))
    assert len(analysis.table)
    assert (analysis.table.context * analysis.table.tensor > 1).all()
    said = analysis.rejected.example(analysis.setting, "accelerate-memory")
    assert said.startswith("accelerate itself needs")
    assert (analyse(free, ("nccl",)).table.context == 1).any()


def test_a_filter_that_the_trainer_cannot_run_is_bad_input(ask):
    with pytest.raises(BadInputError, match=r"--for torchtitan: --scheme ring: .* it runs all-gather"):
        narrowed(ask(scheme=("ring", "all-gather")), "torchtitan")


def test_a_filter_that_it_can_run_stays(ask):
    assert narrowed(ask(scheme=("all-gather",)), "maxtext").filters.scheme == ("all-gather",)


def test_a_dtype_that_it_cannot_run_gives_way_to_its_own(ask):
    assert narrowed(ask(), "maxtext").filters.reduce_dtype == ("bf16",)
    assert narrowed(ask(), "megatron").filters.reduce_dtype == ()


def test_hardware_that_it_does_not_run_on_is_bad_input(ask):
    with pytest.raises(BadInputError, match=r"--for megatron: .* runs on gpu; tpu-v5p-64 is tpu"):
        restrict(Filters(), trainer("megatron"), hardware=ask("llama3-8b", "tpu-v5p-64").hardware, model=ask().model)


def test_a_plain_feed_forward_is_refused_by_every_trainer(ask):
    request = ask()
    plain = request.model.model_copy(update={"mlp": "plain"})
    for name in trainer_names():
        assert any("plain feed-forward" in problem for problem in trainer(name).refusals(request.hardware, plain))


CASES = [
    # trainer, hardware, rule, a mesh that it rejects, the nearest that it does not, words of the message
    ("maxtext", "tpu-v5p-64", "maxtext-zigzag-even", {"context": 3}, {"context": 4}, "needs an even context, not 3"),
    ("maxtext", "tpu-v5p-64", "maxtext-ring-squared", {"context": 6}, {"context": 8}, r"6^2 = 36 does not divide"),
    ("maxtext", "gb200-nvl72", "maxtext-kv-heads", {"tensor": 16}, {"tensor": 8}, "use 1, 2, 4 or 8"),
    ("megatron", "gb200-nvl72", "megatron-chunks", {"context": 9}, {"context": 8}, "2 x context = 18 must divide"),
    ("torchtitan", "gb200-nvl72", "torchtitan-kv-heads", {"tensor": 16}, {"tensor": 8}, "does not replicate key/value heads"),
    (
        "accelerate",
        "gb200-nvl72",
        "accelerate-shards",
        {"tensor": 8},
        {"tensor": 8, "fsdp": 2},
        "use fsdp or context of at least 2",
    ),
    (
        "accelerate",
        "gb200-nvl72",
        "accelerate-replicas",
        {"data": 2, "context": 8},
        {"fsdp": 2, "context": 8},
        "use fsdp in place",
    ),
    ("deepspeed", "gb200-nvl72", "deepspeed-tensor-sequence", {"tensor": 2, "context": 2}, {"context": 2}, "do not compose"),
    ("deepspeed", "gb200-nvl72", "deepspeed-tensor-zero", {"tensor": 2, "fsdp": 2}, {"fsdp": 4}, "ZeRO 0, 1 and 2 only"),
    ("deepspeed", "gb200-nvl72", "deepspeed-data", {"data": 2}, {"fsdp": 2}, "use fsdp for data"),
    ("levanter", "gb200-nvl72", "levanter-context", {"context": 2}, {"fsdp": 2}, "has no context parallelism"),
    ("levanter", "tpu-v5p-64x2", "levanter-slices", {"fsdp": 64}, {"data": 2, "fsdp": 32}, "data must be a multiple of 2"),
    ("maxtext", "tpu-v5p-64x3", "maxtext-slices", {"fsdp": 2, "context": 48}, {"fsdp": 3, "context": 32}, "over 3 slices"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[2])
def test_rules(ask, case):
    name, hw, rule, bad, good, words = case
    request = ask("llama3-8b", hw)
    setting = setting_of(request)
    [found] = [r for r in rules_for(trainer(name), request.hardware) if r.name == rule]
    wrong, right = (Strategy(mesh=Mesh(**mesh), loss_chunk_tokens=1024) for mesh in (bad, good))
    assert found.broken(setting, StrategyTable.from_strategies([wrong, right])).tolist() == [True, False]
    assert words in found.explain(setting, wrong)


@pytest.mark.parametrize("name", [one.name for one in all_trainers() if "offload_percent" in {knob.name for knob in one.lacks}])
def test_no_other_trainer_offloads_in_a_share_of_its_layers(ask, name):
    request = ask("llama3-8b", "gb200-nvl72")
    [rule] = [r for r in rules_for(trainer(name), request.hardware) if r.name == f"{name}-offload-percent"]
    half = Strategy(mesh=Mesh(fsdp=8), remat="offload-layer-in", offload_percent=50)
    every = half.model_copy(update={"offload_percent": 100})
    assert rule.broken(setting_of(request), StrategyTable.from_strategies([half, every])).tolist() == [True, False]
    assert f"lcplan knows no key of {name} for it; use offload_percent=100" in rule.explain(setting_of(request), half)


def test_ulysses_heads(ask):
    request = ask("llama3-8b", "tpu-v5p-64")
    for name in ("maxtext", "megatron"):
        [rule] = [r for r in rules_for(trainer(name), request.hardware) if r.name == f"{name}-ulysses-heads"]
        wrong, right = (Strategy(mesh=Mesh(context=c), scheme="ulysses", loss_chunk_tokens=64) for c in (16, 8))
        assert rule.broken(setting_of(request), StrategyTable.from_strategies([wrong, right])).tolist() == [True, False]
