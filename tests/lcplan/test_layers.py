"""Layers of several kinds: the runs in which a program loops over them, and the parts that laws price apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcplan.catalog import model
from lcplan.spec.experts import Experts
from lcplan.spec.layers import LayerKind, LayerRun, runs_of
from lcplan.spec.model import ModelSpec

DENSE, EXPERTS = LayerKind(), LayerKind(experts=True)
SMALL = ModelSpec(name="small", layers=7, d_model=8, d_ff=16, heads=2, kv_heads=1, head_dim=4, vocab=16)


def mixed(**fields):
    return SMALL.model_copy(update={"experts": Experts(count=4, active=2, d_ff=8, **fields)})


def unrolled(runs):
    return [kind for run in runs for kind in run.period * run.repeats]


def written_out(runs):
    return sum(len(run.period) for run in runs)


@given(st.lists(st.sampled_from([DENSE, EXPERTS]), min_size=1, max_size=24))
def test_runs_are_the_layers_in_order(kinds):
    assert unrolled(runs_of(kinds)) == kinds
    assert written_out(runs_of(kinds)) <= len(kinds)


@pytest.mark.parametrize(
    ("kinds", "runs"),
    [
        ([DENSE] * 3, [((DENSE,), 3)]),
        ([DENSE] * 3 + [EXPERTS] * 58, [((DENSE,), 3), ((EXPERTS,), 58)]),
        ([DENSE, EXPERTS] * 24, [((DENSE, EXPERTS), 24)]),
        ([DENSE] + [DENSE, EXPERTS] * 3, [((DENSE,), 1), ((DENSE, EXPERTS), 3)]),  # not two dense ones, which would break pairs
        (([DENSE] * 5 + [EXPERTS]) * 4 + [DENSE] * 2, [((DENSE,) * 5 + (EXPERTS,), 4), ((DENSE,), 2)]),
    ],
)
def test_runs_write_out_the_fewest_layers(kinds, runs):
    assert runs_of(kinds) == tuple(LayerRun(*run) for run in runs)


def test_layers_of_one_kind_are_one_run_and_one_part():
    assert SMALL.layer_runs == (LayerRun((DENSE,), 7),)
    assert SMALL.parts == (SMALL,)
    assert SMALL.parts[0] is SMALL


def test_which_layers_have_experts():
    spec = mixed(first_dense=1, every=2)
    assert [spec.kind_of(layer).experts for layer in range(7)] == [False, False, True, False, True, False, True]
    assert spec.layer_kinds == {DENSE: 4, EXPERTS: 3}
    assert spec.expert_layers == 3


def test_parts_are_models_of_like_layers_that_add_up():
    spec = mixed(first_dense=2)
    dense, experts = spec.parts
    assert (dense.layers, dense.routed, dense.parts) == (2, None, (dense,))
    assert (experts.layers, experts.expert_layers, experts.parts) == (5, 5, (experts,))
    # attention 2 * 8*8 + 2 * 8*4; dense 3 * 8*16; an expert 3 * 8*8; router 8*4; norms 16
    assert dense.layer_matrix_parameters == 192 + 384
    assert experts.layer_matrix_parameters == 192 + 4 * 192 + 32
    assert spec.matrix_parameters == 2 * 576 + 5 * 992
    assert spec.parameters == spec.matrix_parameters + 7 * 16 + 8 + 2 * 16 * 8
    assert spec.active_parameters == spec.parameters - 5 * 2 * 192


def test_a_copy_forgets_what_its_original_worked_out():
    spec = mixed(first_dense=2)
    assert spec.parameters > 0
    assert spec.model_copy(update={"layers": 2}).parameters == spec.parts[0].parameters


def test_deepseek_v3_is_three_dense_layers_and_58_with_experts():
    spec = model("deepseek-v3")
    assert [(run.period, run.repeats) for run in spec.layer_runs] == [((DENSE,), 3), ((EXPERTS,), 58)]
    assert sum(part.layers * part.layer_matrix_parameters for part in spec.parts) == spec.matrix_parameters
