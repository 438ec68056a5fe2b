"""Parts as programs: each equals plain jax.numpy in fp32 on eight host devices, in each sharding mode and collective matmul."""

from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcplan.parts import Part
from lcplan.parts.part import PartOp
from lcplan.strategy import Mesh, Strategy
from strategies.parallel.mesh import build_mesh
from strategies.parts import build_part

SIZES = "B=32,D=48,F=64"
MESH = Mesh(data=2, tensor=4)
FORMS = {
    "gathers the inner dim": "B/data D/tensor, D F/tensor -> B/data F/tensor",
    "gathers rows": "B/(data,tensor) D, D F/tensor -> B/data F/tensor",
    "scatters columns": "B/data D/tensor, D/tensor F -> B/data F/tensor",
    "scatters rows": "B/data D/tensor, D/tensor F -> B/(data,tensor) F",
    "all-reduces": "B/data D/tensor, D/tensor F -> B/data F",
    "gathers a weight": "B/data D, D/(data,tensor) F -> B/data F",
}
WAYS = [
    {"sharding_mode": "auto"},
    {"sharding_mode": "explicit"},
    {"sharding_mode": "manual"},
    {"sharding_mode": "manual", "collective_matmul": "one-way"},
    {"sharding_mode": "manual", "collective_matmul": "two-way"},
]


def program(kind, shape, *, mesh=MESH, sharding=None, rest=None, **knobs):
    part = Part.of(kind, shape=shape, sharding=sharding, mesh=mesh, rest={"precision": "fp32", **(rest or {})})
    strategy = Strategy(mesh=mesh, **knobs)
    return build_part(part, strategy, build_mesh(strategy, jax.devices()[: mesh.devices]), kernel="blockwise")


def found(built):
    operands = built.example_arguments(jax.random.key(0))
    assert [x.sharding.spec for x in operands] == [shape.sharding.spec for shape in built.abstract_arguments()]
    with jax.default_matmul_precision("highest"):
        return [np.asarray(x) for x in operands], np.asarray(built.jitted(*operands))


@pytest.mark.parametrize("knobs", WAYS, ids=lambda knobs: "-".join(knobs.values()))
@pytest.mark.parametrize("form", FORMS)
def test_a_product_equals_numpys(form, knobs):
    (x, weight), y = found(program("matmul", SIZES, sharding=FORMS[form], **knobs))
    np.testing.assert_allclose(y, x @ weight, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("knobs", WAYS, ids=lambda knobs: "-".join(knobs.values()))
@pytest.mark.parametrize(
    "sharding", ["B/data D/tensor -> B/data D/tensor", "B/(data,tensor) D -> B/(data,tensor) D", "B/data D -> B/data D"]
)
def test_a_feed_forward_equals_its_equation(sharding, knobs):
    (x, up, down), y = found(program("ffn", SIZES, sharding=sharding, **knobs))
    wanted = np.asarray(jax.nn.gelu(jnp.asarray(x @ up))) @ down
    np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("ways", ["one-way", "two-way"])
def test_an_all_reduced_product_has_the_gradients_of_a_plain_one(ways):
    built = program("matmul", SIZES, sharding=FORMS["all-reduces"], sharding_mode="manual", collective_matmul=ways)
    operands = built.example_arguments(jax.random.key(0))
    weigh = jnp.cos(jnp.arange(32 * 64, dtype=jnp.float32)).reshape(32, 64)
    with jax.default_matmul_precision("highest"):
        got = jax.grad(lambda x, w: (built.jitted(x, w) * weigh).sum(), (0, 1))(*operands)
        x, weight = (jnp.asarray(np.asarray(one)) for one in operands)
        wanted = weigh @ weight.T, x.T @ weigh
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["auto", "explicit", "manual"])
@pytest.mark.parametrize("op", get_args(PartOp))
def test_a_collective_moves_what_its_name_says(op, mode):
    (x,), y = found(program("collective", "B=8,D=12", rest={"op": op, "axis": "tensor"}, sharding_mode=mode))
    wanted = {
        "reduce-scatter": lambda: x.sum(axis=0),
        "all-reduce": lambda: x.sum(axis=0),
        "collective-permute": lambda: np.roll(x, 8, axis=0),
    }.get(op, lambda: x)()
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["auto", "explicit", "manual"])
def test_attention_equals_a_softmax_over_earlier_tokens(mode):
    mesh = Mesh(context=4, tensor=2)
    (q, (k, v)), o = found(program("attention", "B=2,T=32,N=4,K=2,H=8", mesh=mesh, scheme="ring", sharding_mode=mode))
    k, v = np.repeat(k, 2, axis=2), np.repeat(v, 2, axis=2)
    scores = np.einsum("btnh,bsnh->bnts", q, k) / np.sqrt(8)
    scores = np.where(np.tril(np.ones((32, 32), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    wanted = np.einsum("bnts,bsnh->btnh", weights / weights.sum(axis=-1, keepdims=True), v)
    np.testing.assert_allclose(o, wanted, rtol=1e-4, atol=1e-4)
