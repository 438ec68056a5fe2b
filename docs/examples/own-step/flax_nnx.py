"""Flax NNX with optax: shardings are in the model's metadata, and nnx.eval_shape makes the state without arrays."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import PartitionSpec as P

from lcplan.step import abstract

LCPLAN = {
    "axes": {"data": "batch", "model": "heads and features"},
    "knobs": {"remat": ["none", "full"]},
    "rules": {"global_batch % data == 0": "every data rank needs whole sequences", "16 % model == 0": "16 heads"},
}
DIM, HEADS, HIDDEN, LAYERS, VOCAB = 2048, 16, 8192, 6, 32768
nnx.use_eager_sharding(False)


def linear(size_in, size_out, spec, rngs):
    kernel_init = nnx.with_partitioning(nnx.initializers.lecun_normal(), spec)
    return nnx.Linear(size_in, size_out, use_bias=False, kernel_init=kernel_init, dtype=jnp.bfloat16, rngs=rngs)


class Block(nnx.Module):
    def __init__(self, rngs):
        self.norms = nnx.List([nnx.RMSNorm(DIM, rngs=rngs) for _ in range(2)])
        self.query_key_value = linear(DIM, 3 * DIM, ("data", "model"), rngs)
        self.out = linear(DIM, DIM, ("model", "data"), rngs)
        self.up, self.down = linear(DIM, HIDDEN, ("data", "model"), rngs), linear(HIDDEN, DIM, ("model", "data"), rngs)

    def __call__(self, x):
        batch, length, _ = x.shape
        heads = jnp.split(self.query_key_value(self.norms[0](x)), 3, axis=-1)
        query, key, value = (part.reshape(batch, length, HEADS, DIM // HEADS) for part in heads)
        attended = jax.nn.dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.reshape(batch, length, DIM))
        return x + self.down(nnx.silu(self.up(self.norms[1](x))))


class Model(nnx.Module):
    def __init__(self, remat, rngs):
        table_init = nnx.with_partitioning(nnx.initializers.normal(0.02), ("model", "data"))
        self.embedding = nnx.Embed(VOCAB, DIM, embedding_init=table_init, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
        self.remat = remat

    def __call__(self, tokens):
        x = self.embedding(tokens).astype(jnp.bfloat16)
        for block in self.blocks:
            x = nnx.remat(lambda block, x: block(x))(block, x) if self.remat == "full" else block(x)
        return self.embedding.attend(x).astype(jnp.float32)


def build(mesh, strategy, workload):
    def create():
        model = Model(strategy["remat"], nnx.Rngs(0))
        return model, nnx.Optimizer(model, optax.adamw(3e-4), wrt=nnx.Param)

    graph, state = nnx.split(nnx.eval_shape(create))
    shardings = nnx.get_named_sharding(state, mesh)
    state = jax.tree.map(lambda one, own: jax.ShapeDtypeStruct(one.shape, one.dtype, sharding=own), state, shardings)

    def step(state, tokens):
        model, optimizer = nnx.merge(graph, state)

        def loss(model):
            return optax.softmax_cross_entropy_with_integer_labels(model(tokens), tokens).mean()

        value, gradients = nnx.value_and_grad(loss)(model)
        optimizer.update(model, gradients)
        return nnx.state((model, optimizer)), value

    tokens = abstract((workload["global_batch"], workload["seq_len"]), jnp.int32, mesh=mesh, spec=P("data"))
    return jax.jit(step, donate_argnums=0), (state, tokens)
