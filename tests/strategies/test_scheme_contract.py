"""The contract of a context scheme, over every registered one: reference equality, listed collectives, facts that hold."""

import pytest
from compiled_step import collective_bytes, compile_on_host, law_bytes
from equality import Case, assert_equal

from cost_models.collectives.context import context_terms
from cost_models.inputs.layout import Layout
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.schemes import SCHEME_COSTS
from lcplan.catalog import hardware
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import SCHEME_FACTS, Mesh, Strategy
from strategies.schemes import SCHEME_PROGRAMS
from strategies.schemes.layout import token_order

MODEL = ModelSpec(name="odd groups", layers=2, d_model=48, d_ff=40, heads=12, kv_heads=4, head_dim=8, vocab=96)
SCALARS = 4 * 40
"""Loss, tokens that count, and one partial norm a parameter array [bytes]."""

every_scheme = pytest.mark.parametrize("facts", SCHEME_FACTS.values(), ids=lambda facts: facts.name)


def smallest(facts, **fields):
    """Four context ranks, which leave a ring of two groups where neighbours exchange heads."""
    exchange = {"ulysses": 2} if facts.groups else {}
    return Strategy(mesh=Mesh(context=4, **fields), scheme=facts.name, loss_chunk_tokens=16, gather_dtype="fp32", **exchange)


@every_scheme
def test_loss_and_gradients_equal_the_reference(facts):
    assert_equal(Case(MODEL, smallest(facts, fsdp=2)))


@every_scheme
def test_collectives_over_context_are_those_of_the_law(facts):
    """Bytes a step by kind and axis, of a compiled step; sums of scalars come on top of an all-reduce."""
    strategy = smallest(facts)
    found, law = collective_bytes(compile_on_host(strategy), strategy), law_bytes(strategy)
    assert {key for key in law if "context" in key[1] and key[0] != "all-reduce"}
    for key in {*found, *law}:
        assert law[key] - 8 <= found[key] <= law[key] + SCALARS * (key[0] == "all-reduce"), key


@every_scheme
def test_laws_apply_by_fact(facts):
    """Collectives and buffers are there where the fact is, in the kinds that the fact names, and nowhere else."""
    machine = hardware("gb200-nvl72")
    setting = Setting(MODEL, machine, Workload(seq_len=64, global_batch=4), machine.usable_bytes)
    layout = Layout(setting, StrategyTable.from_strategies([smallest(facts)]))
    for law in SCHEME_COSTS:
        calls = sum(term.calls[0] for term in law.terms(layout))
        assert (calls > 0) == law.applies(facts), law.name
        assert (
            law.applies(facts)
            or law.pairs_at_rest(layout)[0] == law.pairs_backward(layout)[0] == law.torch_bytes(layout)[0] == 0
        )
    used = {term.op for term in context_terms(layout) if term.calls[0]}
    kinds = {"collective-permute": facts.rings, "all-gather": facts.gathers, "all-to-all": facts.exchange != "nothing"}
    assert {op for op in kinds if op in used} == {op for op, there in kinds.items() if there}
    alone = Layout(setting, StrategyTable.from_strategies([Strategy(mesh=Mesh(fsdp=4), scheme=facts.name)]))
    assert not any(term.calls[0] for term in context_terms(alone))


@every_scheme
def test_ranks_hold_what_the_facts_say(facts):
    order = token_order(smallest(facts), seq_len=64)
    assert sorted(order) == list(range(64))
    assert (order.tolist() == list(range(64))) is not facts.balanced
    assert facts.name in SCHEME_PROGRAMS
