"""Sharding modes: ``auto`` and ``explicit`` give the manual step's numbers, and what each of them moves."""

import jax
import pytest
from compiled_step import collective_bytes, compile_on_host
from equality import Case, assert_equal
from test_step_equality import PLAIN, RICH, strategy

from lcplan.formats.errors import BadInputError
from lcplan.spec.workload import Workload
from lcplan.strategy import SCHEMES, Mesh, Strategy
from strategies.inputs.step_spec import StepSpec
from strategies.parallel.mesh import build_mesh
from strategies.schemes.layout import global_positions, token_order
from strategies.train.step import build_step

MODES = ["auto", "explicit"]


def in_mode(mode, *arguments, **axes):
    return strategy(*arguments, **axes).model_copy(update={"sharding_mode": mode})


FAST = [
    (PLAIN, in_mode("auto", "ring", context=4, tensor=2)),
    (RICH, in_mode("auto", "all-gather", data=2, context=2, tensor=2, microbatches=2)),
    (RICH, in_mode("explicit", "ring-zigzag", "save-qkv", context=2, tensor=4)),  # two tensor ranks share a KV head
    (PLAIN, in_mode("explicit", "ulysses", "none", context=4, fsdp=2)),
    (PLAIN, in_mode("auto", "ulysses-ring", context=4, fsdp=2, ulysses=2, bidirectional="on")),
    (PLAIN, in_mode("auto", "ring", "offload-attention", context=2, fsdp=2)),
]


@pytest.mark.parametrize(("model", "strategy"), FAST, ids=lambda value: getattr(value, "sharding_mode", ""))
def test_equals_reference(model, strategy):
    assert_equal(Case(model, strategy))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mesh", [{"fsdp": 2, "tensor": 2}, {"data": 2, "context": 2, "tensor": 2}, {"fsdp": 2, "context": 4}])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("model", [PLAIN, RICH], ids=lambda model: model.name)
def test_grid_equals_reference(model, scheme, mesh, mode):
    mixed = {"ulysses": 2} if scheme == "ulysses-ring" and mesh.get("context", 1) > 1 else {}
    if mixed and mesh["context"] == 2:
        pytest.skip("two ranks that exchange leave no ring")
    assert_equal(Case(model, in_mode(mode, scheme, "save-attention", **mesh, **mixed)))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_positions_of_whole_arrays_are_the_order_of_the_tokens(scheme):
    strategy = Strategy(mesh=Mesh(context=4), scheme=scheme, ulysses=2 if scheme == "ulysses-ring" else 1)
    order = token_order(strategy, seq_len=64)
    assert global_positions(strategy, 64).tolist() == order.tolist()


def _step(mode, **mesh):
    spec = StepSpec(PLAIN, Workload(seq_len=32, global_batch=4, precision="fp32"), in_mode(mode, **mesh), "blockwise")
    return build_step(spec, build_mesh(spec.strategy, jax.devices()[: spec.strategy.devices]))


@pytest.mark.parametrize("mode", [*MODES, "manual"])
def test_every_mode_trains_the_same_parameters(mode):
    step, manual = _step(mode, fsdp=2), _step("manual", fsdp=2)
    shapes, wanted = (one.abstract_arguments()[0] for one in (step, manual))
    assert jax.tree.structure(shapes) == jax.tree.structure(wanted)
    assert all(
        a.sharding.spec == b.sharding.spec for a, b in zip(jax.tree.leaves(shapes), jax.tree.leaves(wanted), strict=True)
    )
    state, metrics = step.jitted(step.init(jax.random.key(0)), step.example_batch(jax.random.key(1)))
    _, after = step.jitted(state, step.example_batch(jax.random.key(1)))
    assert float(after.loss) < float(metrics.loss)


@pytest.mark.parametrize("mode", MODES)
def test_a_sequence_that_tensor_does_not_divide_is_refused(mode):
    spec = StepSpec(PLAIN, Workload(seq_len=6, global_batch=2), in_mode(mode, context=2, tensor=2), "blockwise")
    with pytest.raises(BadInputError, match=f"sharding_mode={mode}: tensor=2 does not divide the 3 tokens"):
        build_step(spec, build_mesh(spec.strategy, jax.devices()[:4]))


def test_the_ring_moves_the_same_bytes_in_every_mode():
    """The island is the manual step's own code; what is around it is the compiler's choice."""
    moved = {
        mode: collective_bytes(compile_on_host(one), one)
        for mode in ("manual", *MODES)
        for one in [Strategy(mesh=Mesh(context=4, tensor=2), sharding_mode=mode, gather_dtype="fp32")]
    }
    ring = {mode: uses["collective-permute", "context"] for mode, uses in moved.items()}
    assert ring["auto"] == ring["explicit"] == ring["manual"] > 0
    assert moved["auto"] == moved["explicit"]
