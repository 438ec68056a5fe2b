"""Equinox with optax: parameters are the arrays of a module, and the layers are not scanned."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import PartitionSpec as P

from lcplan.step import abstract, abstract_state

LCPLAN = {
    "axes": {"data": "batch", "model": "features"},
    "knobs": {"remat": ["none", "full"]},
    "rules": {"global_batch % data == 0": "every data rank needs whole sequences"},
}
DIM, HIDDEN, LAYERS, VOCAB = 1024, 4096, 4, 32768
OPTIMIZER = optax.adamw(3e-4)


class Block(eqx.Module):
    norm: eqx.nn.RMSNorm
    up: eqx.nn.Linear
    down: eqx.nn.Linear

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.norm = eqx.nn.RMSNorm(DIM)
        self.up = eqx.nn.Linear(DIM, HIDDEN, use_bias=False, key=first)
        self.down = eqx.nn.Linear(HIDDEN, DIM, use_bias=False, key=second)

    def __call__(self, x):
        return x + self.down(jax.nn.gelu(self.up(self.norm(x))))


class Model(eqx.Module):
    table: jax.Array
    blocks: list

    def __init__(self, key):
        first, *rest = jax.random.split(key, LAYERS + 1)
        self.table = jax.random.normal(first, (VOCAB, DIM)) * 0.02
        self.blocks = [Block(key) for key in rest]

    def __call__(self, token, remat):
        x = self.table[token]
        for block in self.blocks:
            x = (eqx.filter_checkpoint(block) if remat else block)(x)
        return self.table @ x


def build(mesh, strategy, workload):
    static = eqx.partition(eqx.filter_eval_shape(Model, jax.random.key(0)), eqx.is_array_like)[1]

    def init(key):
        params = eqx.filter(Model(key), eqx.is_array)
        return params, OPTIMIZER.init(params)

    def spec(path, shape):
        if path.endswith(("up/weight", "table")):
            return P("model", None)
        return P(None, "model") if path.endswith("down/weight") else P()

    def step(state, tokens):
        params, moments = state

        def loss(params):
            model = eqx.combine(params, static)
            logits = jax.vmap(jax.vmap(lambda token: model(token, strategy["remat"] == "full")))(tokens)
            return optax.softmax_cross_entropy_with_integer_labels(logits, tokens).mean()

        value, gradients = jax.value_and_grad(loss)(params)
        changes, moments = OPTIMIZER.update(gradients, moments, params)
        return (eqx.apply_updates(params, changes), moments), value

    state = abstract_state(init, jax.random.key(0), mesh=mesh, spec=spec)
    tokens = abstract((workload["global_batch"], workload["seq_len"]), jnp.int32, mesh=mesh, spec=P("data"))
    return jax.jit(step, donate_argnums=0), (state, tokens)
