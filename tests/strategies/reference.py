"""The same model on one device in plain jax.numpy: whole sequences, S x S scores, all logits. To be read against the paper."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcplan.spec.model import ModelSpec
from strategies.layers.rope import frequencies

Params = dict[str, Any]


def reference_loss(
    params: Params, tokens: jax.Array, targets: jax.Array, *, model: ModelSpec, documents: np.ndarray | None = None
) -> jax.Array:
    """Mean cross-entropy over targets that are not -1. ``params`` as ``nnx.to_pure_dict`` gives them, tokens in order.

    ``documents`` are ids by token: attention stays inside each.
    """
    logits = reference_logits(params, tokens, model=model, documents=documents)
    nll = jax.nn.logsumexp(logits, axis=-1) - jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    valid = targets >= 0
    return jnp.where(valid, nll, 0).sum() / valid.sum()


def reference_logits(params: Params, tokens: jax.Array, *, model: ModelSpec, documents: np.ndarray | None = None) -> jax.Array:
    """Logits of the token after each."""
    ids = np.zeros(tokens.shape, int) if documents is None else documents
    x = params["embedding"][tokens]
    for kind, layer in _layers(params["layers"], model):
        x = x + _attention(layer["attention"], _norm(x, layer["attention"]["norm"], kind), kind, ids)
        feed_forward = _experts if "router" in layer["feed_forward"] else _feed_forward
        x = x + feed_forward(layer["feed_forward"], _norm(x, layer["feed_forward"]["norm"], kind), kind)
    head = params.get("head", params["embedding"])
    return jnp.einsum("btd,vd->btv", _norm(x, params["norm"], model), head)


def _layers(stacks: Any, model: ModelSpec) -> Iterator[tuple[ModelSpec, Params]]:
    """Every layer in order, with the model as its kind sees it; stacks of layers by run and by place in its period."""
    if len(model.layer_kinds) == 1:
        stacks = {0: {0: stacks}}
    for (period, repeats), places in zip(model.layer_runs, stacks.values(), strict=True):
        for turn in range(repeats):
            for kind, stack in zip(period, places.values(), strict=True):
                yield model.of_kind(kind), jax.tree.map(lambda stacked, turn=turn: stacked[turn], stack)


def _norm(x: jax.Array, weight: jax.Array, model: ModelSpec) -> jax.Array:
    return x / jnp.sqrt((x**2).mean(axis=-1, keepdims=True) + model.norm_eps) * weight


def _rotate(x: jax.Array, model: ModelSpec) -> jax.Array:
    """Pairs (i, i + H / 2) as complex numbers, times exp(i position frequency)."""
    frequency, factor = frequencies(model, x.shape[1])
    turn = factor * np.exp(1j * np.arange(x.shape[1])[:, None] * frequency)
    half = model.head_dim // 2
    turned = (x[..., :half] + 1j * x[..., half:]) * turn[:, None].astype(np.complex64)
    return jnp.concatenate([turned.real, turned.imag], axis=-1)


def _attention(layer: Params, h: jax.Array, model: ModelSpec, ids: np.ndarray) -> jax.Array:
    q = jnp.einsum("btd,dnh->btnh", h, layer["query"])
    k, v = jnp.einsum("btd,dckh->cbtkh", h, layer["key_value"])
    if model.qkv_bias:
        q, k, v = q + layer["query_bias"], k + layer["key_value_bias"][0], v + layer["key_value_bias"][1]
    if model.qk_norm:
        q, k = _norm(q, layer["query_norm"], model), _norm(k, layer["key_norm"], model)
    o = naive_attention(_rotate(q, model), _rotate(k, model), v, ids, window=model.sliding_window)
    x = jnp.einsum("btnh,dnh->btd", o, layer["out"])
    return x + layer["out_bias"] if model.out_bias else x


def naive_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, ids: np.ndarray | None = None, *, window: int | None = None
) -> jax.Array:
    """Causal softmax attention with every key and value head repeated for its group of query heads, inside each of ``ids``.

    With ``window`` a query sees its own key and those before it, so many in all.
    """
    group, length = q.shape[2] // k.shape[2], q.shape[1]
    k, v = jnp.repeat(k, group, axis=2), jnp.repeat(v, group, axis=2)
    scores = jnp.einsum("btnh,bsnh->bnts", q, k) / sqrt(q.shape[-1])
    seen = np.tri(length, dtype=bool)
    if window is not None:
        seen &= ~np.tri(length, k=-window, dtype=bool)
    if ids is not None:
        seen = (seen & (ids[:, :, None] == ids[:, None]))[:, None]
    scores = jnp.where(seen, scores, -jnp.inf)
    return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores, axis=-1), v)


def _feed_forward(layer: Params, h: jax.Array, model: ModelSpec) -> jax.Array:
    gate, up = h @ layer["gate"], h @ layer["up"]
    if model.mlp_bias:
        gate, up = gate + layer["gate_bias"], up + layer["up_bias"]
    x = (_ACTIVATIONS[model.activation](gate) * up) @ layer["down"].T
    return x + layer["down_bias"] if model.mlp_bias else x


def _experts(layer: Params, h: jax.Array, model: ModelSpec) -> jax.Array:
    """Every expert for every token, one after another, weighted; zero where the token did not choose it."""
    experts = model.experts
    logits = h @ layer["router"]
    scores = jax.nn.softmax(logits, axis=-1) if experts.scores == "softmax" else 1 / (1 + jnp.exp(-logits))
    groups = jnp.split(scores, experts.groups, axis=-1)
    best = jnp.stack([jnp.sort(group, axis=-1)[..., -experts.group_best :].sum(axis=-1) for group in groups], axis=-1)
    good = best >= jnp.sort(best, axis=-1)[..., -experts.groups_chosen, None]
    allowed = jnp.where(jnp.repeat(good, experts.count // experts.groups, axis=-1), scores, -1)
    kth = jnp.sort(allowed, axis=-1)[..., -experts.active, None]
    weights = jnp.where(allowed >= kth, scores, 0)
    if experts.normalized:
        weights = weights / weights.sum(axis=-1, keepdims=True)
    weights = weights * experts.scale
    total = jnp.zeros_like(h)
    for index in range(experts.count):
        gate, up, down = (layer[f"expert_{name}"][:, index] for name in ("gate", "up", "down"))
        total += weights[..., index, None] * ((_ACTIVATIONS[model.activation](h @ gate) * (h @ up)) @ down.T)
    return total + _shared(layer, h, model) if experts.shared_d_ff else total


def _shared(layer: Params, h: jax.Array, model: ModelSpec) -> jax.Array:
    """What every token meets."""
    x = (_ACTIVATIONS[model.activation](h @ layer["shared_gate"]) * (h @ layer["shared_up"])) @ layer["shared_down"].T
    return x / (1 + jnp.exp(-(h @ layer["shared_weight"])))[..., None] if model.experts.shared_gate else x


_ACTIVATIONS = {
    "silu": lambda x: x / (1 + jnp.exp(-x)),
    "gelu": lambda x: x * (1 + jax.scipy.special.erf(x / sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + jnp.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
    "relu": lambda x: jnp.maximum(x, 0),
}
