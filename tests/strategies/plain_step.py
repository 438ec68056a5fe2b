"""A Llama train step as one would write it first, for one device: what lcplan's own measurement of an H100 ran.

fp32 weights and two fp32 moments, donated; weights cast to bf16 where they are used; a scan over layers; cuDNN attention; the
loss in 8 rematerialised chunks with fp32 logits. ``plain_step.py JSON`` compiles it for an H100 that is not there and prints
one JSON line of ``memory_analysis``; stands in its own process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from lcplan import catalog
from lcplan.model import ModelSpec
from planner.measure.target import gpu_target_config

LOSS_CHUNKS = 8
ROPE_BASE = 500000.0
POLICIES = {"full": None, "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable}

Weights = dict[str, Any]


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


def layer(x: jax.Array, weights: Weights, *, model: ModelSpec) -> tuple[jax.Array, None]:
    """One layer, as a scan's body."""
    bf16 = {name: weights[name].astype(jnp.bfloat16) for name in weights if not name.endswith("norm")}
    row = normed(x, weights["attention_norm"])
    heads = {"query": model.heads, "key": model.kv_heads, "value": model.kv_heads}
    query, key, value = ((row @ bf16[name]).reshape(*x.shape[:2], n, model.head_dim) for name, n in heads.items())
    mixed = jax.nn.dot_product_attention(rotated(query), rotated(key), value, is_causal=True, implementation="cudnn")
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


def train(weights: Weights, first: Weights, second: Weights, tokens: jax.Array, *, body: Callable[..., Any]) -> Any:
    """Gradients and a plain Adam update."""
    value, grads = jax.value_and_grad(partial(loss, body=body))(weights, tokens)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, second, grads)
    weights = jax.tree.map(lambda w, m, v: w - 1e-4 * m / (jnp.sqrt(v) + 1e-8), weights, first, second)
    return weights, first, second, value


def main(request: dict[str, Any]) -> dict[str, Any]:
    """``memory_analysis`` of the step for an H100 that is not there [bytes]."""
    model, hardware = ModelSpec.model_validate(request["model"]), catalog.hardware("dgx-h100")
    text = gpu_target_config(hardware, cudnn=(9, 10, 2), runtime=(12, 9, 0))
    device = topologies.get_topology_desc(platform="cuda", target_config=text, topology="1x1x1").devices[0]
    here = SingleDeviceSharding(device)
    body = partial(layer, model=model)
    if request["remat"] != "none":
        body = jax.checkpoint(body, policy=POLICIES[request["remat"]])
    shapes = weight_shapes(model)
    state = jax.tree.map(
        lambda shape: jax.ShapeDtypeStruct(shape, jnp.float32, sharding=here), shapes, is_leaf=lambda x: isinstance(x, tuple)
    )
    tokens = jax.ShapeDtypeStruct((1, request["seq_len"]), jnp.int32, sharding=here)
    compiled = jax.jit(partial(train, body=body), donate_argnums=(0, 1, 2)).lower(state, state, state, tokens).compile()
    memory = compiled.memory_analysis()
    return {name: getattr(memory, f"{name}_size_in_bytes") for name in ("argument", "output", "temp", "alias")}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
