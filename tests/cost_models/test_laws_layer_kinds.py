"""Laws of models whose layers are of several kinds: shared experts, dense layers before or between those with experts."""

import pytest
from expert_layouts import ATTENTION, TOY, layout, terms

from cost_models.collectives.step import terms_of
from cost_models.compute.flops import matrix_flop_per_token
from cost_models.estimate import estimate
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.catalog import hardware, model
from lcplan.spec.experts import Experts
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy

SHARED = TOY.model_copy(update={"experts": Experts(count=4, active=2, d_ff=16, shared_d_ff=32, shared_gate=True)})
MIXED = TOY.model_copy(update={"layers": 5, "experts": Experts(count=4, active=2, d_ff=16, shared_d_ff=32, first_dense=2)})
DENSE = 3 * 8 * 8


def test_shared_experts_by_hand():
    # one gated product of 32 columns for every token: 3 * 8*32; its sigmoid 8
    assert SHARED.layer_matrix_parameters == TOY.layer_matrix_parameters + 3 * 8 * 32
    assert SHARED.layer_vector_parameters == TOY.layer_vector_parameters + 8
    assert matrix_flop_per_token(SHARED) == matrix_flop_per_token(TOY) + 6 * 2 * 3 * 8 * 32
    assert terms(spec=SHARED, fsdp=2, expert=2)["all-gather", "weights"].bytes[0] == 2 * (ATTENTION + 3 * 8 * 32)


def test_shared_experts_move_no_rows_of_their_own():
    with_shared, without = terms(spec=SHARED, expert=4, tensor=2), terms(expert=4, tensor=2)
    assert with_shared.keys() == without.keys()
    for purpose in (("all-gather", "stream"), ("reduce-scatter", "stream"), ("ragged-all-to-all", "expert-rows")):
        assert with_shared[purpose].bytes[0] == without[purpose].bytes[0]
        assert with_shared[purpose].calls[0] == without[purpose].calls[0]


def test_each_kind_of_layers_has_its_own_collectives():
    found = [term for term in terms_of(layout(spec=MIXED, fsdp=2, expert=4)) if term.used.any()]
    weights = [(term.bytes[0], term.calls[0]) for term in found if (term.op, term.purpose) == ("all-gather", "weights")]
    assert weights == [(2 * (ATTENTION + DENSE), 2 * 2), (2 * (ATTENTION + 3 * 8 * 32), 2 * 3)]
    rows = [term.calls[0] for term in found if term.purpose == "expert-rows"]
    assert rows == [5 * 3]
    assert [term.bytes[0] for term in found if term.purpose == "vectors"] == [4 * (5 * 16 + 8)]


def test_what_kinds_have_in_common_is_one_term():
    found = [term for term in terms_of(layout(spec=MIXED, tensor=2, expert=4)) if term.purpose == "stream"]
    assert [(term.op, term.calls[0]) for term in found] == [
        ("all-gather", 6 * 5 + 1),
        ("reduce-scatter", 5 * 5 + 1),
    ]


def mixed(**experts):
    whole = model("qwen3-30b-a3b")
    changed = whole.experts.model_copy(update=experts)
    return whole.model_copy(update={"experts": changed})


def priced_spec(spec, *strategies):
    hw = hardware("gb200-nvl72")
    setting = Setting(spec, hw, Workload(seq_len=131072, global_batch=32), hw.usable_bytes)
    return estimate(setting, StrategyTable.from_strategies(strategies))


LAID_OUT = Strategy(mesh=Mesh(context=8, tensor=2, expert=4), microbatches=8)
OUTSIDE = {"loss", "optimizer", "comm_data"}


def test_time_of_two_kinds_is_the_sum_of_their_layers():
    """What is L layers of one kind alone, less what is in it beside layers, adds up to the time of both kinds."""
    spec = mixed(first_dense=8)
    whole = priced_spec(spec, LAID_OUT).time_s
    alone = [priced_spec(part, LAID_OUT).time_s for part in spec.parts]
    for name in set(whole) - OUTSIDE - {"comm_fsdp", "comm_tensor", "contention"}:
        assert whole[name][0] == pytest.approx(sum(times[name][0] for times in alone), rel=1e-9), name
    assert whole["loss"][0] == alone[0]["loss"][0]
    assert max(times["optimizer"][0] for times in alone) < whole["optimizer"][0] < sum(times["optimizer"][0] for times in alone)


def test_memory_of_two_kinds_is_the_state_of_both_and_the_moment_of_the_larger():
    spec = mixed(first_dense=8)
    whole, dense, experts = (priced_spec(one, LAID_OUT) for one in (spec, *spec.parts))
    vectors, shards = spec.vector_parameters, 8 * 2 * 4
    assert whole.memory_bytes["params"][0] == pytest.approx(4 * ((spec.parameters - vectors) / shards + vectors))
    for part in ("working_set", "kv_ring", "gathered_weights", "collective_buffers"):
        assert whole.memory_bytes[part][0] == pytest.approx(experts.memory_bytes[part][0])
    saved = [one.memory_bytes["saved_activations"][0] for one in (whole, dense, experts)]
    assert saved[0] == pytest.approx(saved[1] + saved[2])


def test_alternating_layers_cost_what_the_same_layers_in_a_row_do():
    turns, row = mixed(every=2), mixed(first_dense=24)
    assert turns.layer_kinds == row.layer_kinds
    assert priced_spec(turns, LAID_OUT).step_s[0] == priced_spec(row, LAID_OUT).step_s[0]


def test_a_model_without_experts_in_any_layer_costs_what_the_dense_one_does():
    spec = mixed(first_dense=48)
    dense = spec.model_copy(update={"experts": None})
    one, other = (priced_spec(which, Strategy(mesh=Mesh(context=8, tensor=2), microbatches=8)) for which in (spec, dense))
    assert one.step_s[0] == pytest.approx(other.step_s[0], rel=1e-12)
    assert one.total_bytes[0] == pytest.approx(other.total_bytes[0], rel=1e-12)
