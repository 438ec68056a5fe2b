"""A decoder under plain jit: shardings are on the arguments, and XLA partitions the rest."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from lcplan.step import abstract, abstract_state

LCPLAN = {
    "axes": {"data": "batch", "model": "heads and features"},
    "knobs": {"remat": ["none", "dots", "full"], "microbatches": [1, 2]},
    "rules": {
        "32 % model == 0": "attention has 32 heads",
        "global_batch % (data * microbatches) == 0": "every data rank needs whole sequences in each microbatch",
    },
}
DIM, HEADS, HIDDEN, LAYERS, VOCAB = 4096, 32, 14336, 8, 32768
POLICIES = {"dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable, "full": None}
SPECS = {
    "embedding": P("model", "data"),
    "query_key_value": P(None, "data", "model"),
    "out": P(None, "model", "data"),
    "up": P(None, "data", "model"),
    "down": P(None, "model", "data"),
}


def init():
    """Return fp32 parameters and the two moments of Adam."""
    shapes = {
        "embedding": (VOCAB, DIM),
        "query_key_value": (LAYERS, DIM, 3 * DIM),
        "out": (LAYERS, DIM, DIM),
        "up": (LAYERS, DIM, HIDDEN),
        "down": (LAYERS, HIDDEN, DIM),
    }
    zeros = {name: jnp.zeros(shape) for name, shape in shapes.items()}
    return {"params": zeros, "mean": zeros, "square": zeros}


def build(mesh, strategy, workload):
    whole = NamedSharding(mesh, P("data", None, None))

    def block(x, w):
        batch, length, _ = x.shape
        query, key, value = (
            part.reshape(batch, length, HEADS, DIM // HEADS) for part in jnp.split(x @ w["query_key_value"], 3, axis=-1)
        )
        attended = jax.nn.dot_product_attention(query, key, value, is_causal=True)
        x = x + attended.reshape(batch, length, DIM) @ w["out"]
        x = x + jax.nn.silu(x @ w["up"]) @ w["down"]
        return jax.lax.with_sharding_constraint(x, whole), None

    body = block if strategy["remat"] == "none" else jax.checkpoint(block, policy=POLICIES[strategy["remat"]])

    def loss(params, tokens):
        half = jax.tree.map(lambda one: one.astype(jnp.bfloat16), params)
        table = half.pop("embedding")
        x, _ = jax.lax.scan(body, jax.lax.with_sharding_constraint(table[tokens], whole), half)
        logits = (x @ table.T).astype(jnp.float32)
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], axis=-1)
        return -picked.mean()

    def step(state, tokens):
        def add(total, part):
            value, gradients = jax.value_and_grad(loss)(state["params"], part)
            return jax.tree.map(jnp.add, total, gradients), value

        parts = tokens.reshape(strategy["microbatches"], -1, tokens.shape[-1])
        gradients, values = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, state["params"]), parts)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradients)
        square = jax.tree.map(lambda s, g: 0.95 * s + 0.05 * g * g, state["square"], gradients)
        params = jax.tree.map(lambda p, m, s: p - 3e-4 * m / (jnp.sqrt(s) + 1e-8), state["params"], mean, square)
        return {"params": params, "mean": mean, "square": square}, values.mean()

    state = abstract_state(init, mesh=mesh, spec=lambda path, shape: SPECS[path.split("/")[-1]])
    tokens = abstract((workload["global_batch"], workload["seq_len"]), jnp.int32, mesh=mesh, spec=P("data"))
    return jax.jit(step, donate_argnums=0), (state, tokens)
