"""A Llama train step as one would write it first, for one device: what lcplan's own measurement of an H100 ran.

fp32 weights and two fp32 moments, donated; weights cast to bf16 where they are used; a scan over layers; the framework's own
attention (cuDNN's on a GPU); the loss in 8 rematerialised chunks with fp32 logits. ``plain_step.py JSON`` compiles it for an
H100 that is not there and prints one JSON line of ``memory_analysis``; stands in its own process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from lcplan import catalog
from lcplan.spec.model import ModelSpec
from planner.measure.targets.target import gpu_target_config

LOSS_CHUNKS = 8
ROPE_BASE = 500000.0
POLICIES = {"full": None, "save-dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable}

Weights = dict[str, Any]
Attention = Literal["cudnn", "xla"]


class PlainState(NamedTuple):
    """What a step takes and gives back."""

    weights: Weights
    first: Weights
    second: Weights


class PlainMetrics(NamedTuple):
    """Of the step just done."""

    loss: jax.Array


def weight_shapes(model: ModelSpec) -> Weights:
    """Shapes of all weights, layers stacked."""
    L, D, F = model.layers, model.d_model, model.d_ff
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    matrices = {
        "query": (D, queries), "key": (D, keys), "value": (D, keys), "out": (queries, D),
        "gate": (D, F), "up": (D, F), "down": (F, D), "attention_norm": (D,), "feed_forward_norm": (D,),
    }  # fmt: skip
    layers = {name: (L, *shape) for name, shape in matrices.items()}
    return {"embedding": (model.vocab, D), "head": (D, model.vocab), "norm": (D,), "layers": layers}


def normed(x: jax.Array, scale: jax.Array) -> jax.Array:
    """RMSNorm in fp32."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-5) * scale).astype(x.dtype)


def rotated(x: jax.Array) -> jax.Array:
    """Rotary embedding of halves, in fp32, angles made where they are used."""
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None] * (ROPE_BASE ** (-jnp.arange(half) / half))
    cosine, sine = jnp.cos(angle)[None, :, None], jnp.sin(angle)[None, :, None]
    first, second = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    return jnp.concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=-1).astype(x.dtype)


def layer(x: jax.Array, weights: Weights, *, model: ModelSpec, attention: Attention) -> tuple[jax.Array, None]:
    """One layer, as a scan's body."""
    bf16 = {name: weights[name].astype(jnp.bfloat16) for name in weights if not name.endswith("norm")}
    row = normed(x, weights["attention_norm"])
    heads = {"query": model.heads, "key": model.kv_heads, "value": model.kv_heads}
    query, key, value = ((row @ bf16[name]).reshape(*x.shape[:2], n, model.head_dim) for name, n in heads.items())
    mixed = jax.nn.dot_product_attention(rotated(query), rotated(key), value, is_causal=True, implementation=attention)
    x = x + mixed.reshape(*x.shape[:2], -1) @ bf16["out"]
    row = normed(x, weights["feed_forward_norm"])
    return x + (jax.nn.silu(row @ bf16["gate"]) * (row @ bf16["up"])) @ bf16["down"], None


def loss(weights: Weights, tokens: jax.Array, *, body: Callable[..., Any]) -> jax.Array:
    """Mean cross entropy of the next token."""
    x, _ = jax.lax.scan(body, weights["embedding"].astype(jnp.bfloat16)[tokens], weights["layers"])
    rows, labels = normed(x, weights["norm"])[0], jnp.roll(tokens, -1, axis=1)[0]

    def chunk(total: jax.Array, part: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        some, label = part
        logits = jnp.einsum("td,dv->tv", some, weights["head"].astype(jnp.bfloat16), preferred_element_type=jnp.float32)
        of_label = jnp.take_along_axis(logits, label[:, None], axis=-1)[:, 0]
        return total + (jax.nn.logsumexp(logits, axis=-1) - of_label).sum(), None

    parts = rows.reshape(LOSS_CHUNKS, -1, rows.shape[-1]), labels.reshape(LOSS_CHUNKS, -1)
    return jax.lax.scan(jax.checkpoint(chunk), jnp.zeros(()), parts)[0] / tokens.shape[1]


@dataclass(frozen=True)
class PlainStep:
    """The step on one device, to be timed as a ``TrainStep`` is."""

    model: ModelSpec
    seq_len: int
    remat: str
    attention: Attention = "cudnn"

    @cached_property
    def jitted(self) -> Any:
        """``jax.jit`` of (state, tokens) -> (state, metrics): gradients and a plain Adam update; the state is donated."""
        body = partial(layer, model=self.model, attention=self.attention)
        if self.remat != "save-all":
            body = jax.checkpoint(body, policy=POLICIES[self.remat])

        def train(state: PlainState, tokens: jax.Array) -> tuple[PlainState, PlainMetrics]:
            value, grads = jax.value_and_grad(partial(loss, body=body))(state.weights, tokens)
            first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.first, grads)
            second = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, state.second, grads)
            weights = jax.tree.map(lambda w, m, v: w - 1e-4 * m / (jnp.sqrt(v) + 1e-8), state.weights, first, second)
            return PlainState(weights, first, second), PlainMetrics(value)

        return jax.jit(train, donate_argnums=0)

    def abstract_arguments(self, where: Any = None) -> tuple[PlainState, jax.ShapeDtypeStruct]:
        """Shapes, for ``jitted.lower(*abstract_arguments())``; of arrays that lie by the sharding ``where``."""
        shapes = weight_shapes(self.model)
        weights = jax.tree.map(
            lambda shape: jax.ShapeDtypeStruct(shape, jnp.float32, sharding=where),
            shapes,
            is_leaf=lambda x: isinstance(x, tuple),
        )
        return PlainState(weights, weights, weights), jax.ShapeDtypeStruct((1, self.seq_len), jnp.int32, sharding=where)

    def init(self, key: jax.Array) -> PlainState:
        """A random state."""
        leaves, tree = jax.tree.flatten(self.abstract_arguments()[0].weights)
        keys = jax.random.split(key, len(leaves))
        made = [0.02 * jax.random.normal(one, leaf.shape, leaf.dtype) for one, leaf in zip(keys, leaves, strict=True)]
        first, second = (jax.tree.unflatten(tree, [jnp.zeros_like(leaf) for leaf in made]) for _ in range(2))
        return PlainState(jax.tree.unflatten(tree, made), first, second)

    def example_batch(self, key: jax.Array) -> jax.Array:
        """Random tokens."""
        return jax.random.randint(key, (1, self.seq_len), 0, self.model.vocab, jnp.int32)


def main(request: dict[str, Any]) -> dict[str, Any]:
    """``memory_analysis`` of the step for an H100 that is not there [bytes]."""
    text = gpu_target_config(catalog.hardware("dgx-h100"), dnn=(9, 10, 2), runtime=(12, 9, 0))
    device = topologies.get_topology_desc(platform="cuda", target_config=text, topology="1x1x1").devices[0]
    step = PlainStep(ModelSpec.model_validate(request["model"]), request["seq_len"], request["remat"])
    memory = step.jitted.lower(*step.abstract_arguments(SingleDeviceSharding(device))).compile().memory_analysis()
    return {name: getattr(memory, f"{name}_size_in_bytes") for name in ("argument", "output", "temp", "alias")}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
