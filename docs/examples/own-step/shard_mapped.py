"""A decoder inside shard_map, its collectives written out: weights are gathered over fsdp, keys and values over sequence."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from lcplan.step import abstract, abstract_state

LCPLAN = {
    "axes": {"fsdp": "batch and state", "sequence": "tokens of a sequence"},
    "knobs": {"remat": ["none", "full"]},
    "rules": {"global_batch % fsdp == 0": "every fsdp rank needs whole sequences"},
}
DIM, HEADS, HIDDEN, LAYERS, VOCAB = 4096, 32, 14336, 8, 32768
SHAPES = {"query_key_value": (DIM, 3 * DIM), "out": (DIM, DIM), "up": (DIM, HIDDEN), "down": (HIDDEN, DIM)}


def init():
    """Return fp32 parameters."""
    layers = {name: jnp.zeros((LAYERS, *shape)) for name, shape in SHAPES.items()}
    return {"embedding": jnp.zeros((VOCAB, DIM)), "layers": layers}


def gathered(weight, axis):
    return jax.lax.all_gather(weight.astype(jnp.bfloat16), axis, axis=0, tiled=True)


def block(x, shards):
    w = {name: gathered(shard, "fsdp") for name, shard in shards.items()}
    batch, length, _ = x.shape
    query, key, value = (
        part.reshape(batch, length, HEADS, DIM // HEADS) for part in jnp.split(x @ w["query_key_value"], 3, axis=-1)
    )
    key, value = (jax.lax.all_gather(part, "sequence", axis=1, tiled=True) for part in (key, value))
    rows = jax.lax.axis_index("sequence") * length + jnp.arange(length)
    mask = rows[:, None] >= jnp.arange(key.shape[1])
    attended = jax.nn.dot_product_attention(query, key, value, mask=mask[None, None])
    x = x + attended.reshape(batch, length, DIM) @ w["out"]
    return x + jax.nn.silu(x @ w["up"]) @ w["down"], None


def build(mesh, strategy, workload):
    body = jax.checkpoint(block) if strategy["remat"] == "full" else block

    def local_loss(params, tokens):
        table = gathered(params["embedding"], "fsdp")
        x, _ = jax.lax.scan(body, table[tokens], params["layers"])
        logits = (x @ table.T).astype(jnp.float32)
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], axis=-1)
        return jax.lax.pmean(-picked.mean(), ("fsdp", "sequence"))

    specs = {"embedding": P("fsdp"), "layers": dict.fromkeys(SHAPES, P(None, "fsdp"))}
    loss = jax.shard_map(local_loss, mesh=mesh, in_specs=(specs, P("fsdp", "sequence")), out_specs=P(), check_vma=False)

    def step(params, tokens):
        value, gradients = jax.value_and_grad(loss)(params, tokens)
        return jax.tree.map(lambda p, g: p - 1e-3 * g, params, gradients), value

    params = abstract_state(init, mesh=mesh, spec=specs)
    tokens = abstract((workload["global_batch"], workload["seq_len"]), jnp.int32, mesh=mesh, spec=P("fsdp", "sequence"))
    return jax.jit(step, donate_argnums=0), (params, tokens)
