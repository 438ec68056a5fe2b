"""A small step of one's own, for tests: a two-layer network on axes ``rows`` and ``cols``."""

STEP = """
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

LCPLAN = {
    "axes": {"rows": "batch", "cols": "features"},
    "knobs": {"remat": ["none", "full"], "layers": [2]},
    "rules": {"global_batch % rows == 0": "every rank needs whole sequences"},
}
WIDTH = 64


def build(mesh, strategy, workload):
    def layer(x, w):
        return jnp.tanh(x @ w), None

    body = jax.checkpoint(layer) if strategy["remat"] == "full" else layer

    def loss(weights, x):
        y, _ = jax.lax.scan(body, x, weights)
        return (y.astype(jnp.float32) ** 2).mean()

    def step(weights, x):
        value, grads = jax.value_and_grad(loss)(weights, x)
        return weights - 0.1 * grads, value

    def array(shape, spec):
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))

    tokens = workload["global_batch"] * workload["seq_len"]
    weights = array((strategy["layers"], WIDTH, WIDTH), P(None, None, "cols"))
    return jax.jit(step, donate_argnums=0), (weights, array((tokens, WIDTH), P("rows", None)))
"""


def written(folder, text=STEP, name="my_step.py"):
    """A step file in ``folder``."""
    path = folder / name
    path.write_text(text)
    return path
