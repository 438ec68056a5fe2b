"""Probes that ``lcplan calibrate`` times inside a worker, on the devices at hand. All devices work at once, as in a step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

ENOUGH_S = 0.02
"""Calls are repeated within a sample until it takes this long, so that a clock's and a launch's share is small."""
SAMPLES = 7
PATIENCE_S = 1.5
"""A probe stops after so long, once it has three samples."""


def run(probe: Mapping[str, Any]) -> dict[str, Any]:
    """Run the probe of a ``kind``, with its other values as sizes: ``samples`` [s per call], or the facts of the devices."""
    arguments = {key: value for key, value in probe.items() if key != "kind"}
    return _KINDS[probe["kind"]](**arguments)


def _devices() -> dict[str, Any]:
    import jax

    from planner.measure.timing.time_full import device_words

    first = jax.devices()[0]
    return {"platform": first.platform, "kind": first.device_kind, "count": len(jax.devices()), "device": device_words()}


def _gemm(rows: int, inner: int, columns: int, dtype: str) -> dict[str, Any]:
    import jax.numpy as jnp

    left, right = _everywhere((rows, inner), dtype), _everywhere((inner, columns), dtype)
    return timed(_each(lambda a, b: jnp.matmul(a[0], b[0])[None]), left, right)


def _copy(size_bytes: int) -> dict[str, Any]:
    return timed(_each(lambda x: x * 2), _everywhere((size_bytes // 4,), "float32"))


def _host(size_bytes: int) -> dict[str, Any]:
    """Time a copy from the host's pinned memory, where offloaded arrays are kept, to each device."""
    import jax
    import numpy as np
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    rows = P(("group", "member"))
    here, away = (NamedSharding(_mesh(1), rows, memory_kind=kind) for kind in ("device", "pinned_host"))
    data = jax.device_put(np.ones((jax.device_count(), size_bytes // 4), np.float32), away)
    return timed(lambda: jax.device_put(data, here))


def _attention(
    tokens: int, heads: tuple[int, int, int], *, dtype: str, kernel: str, block: int, backward: bool
) -> dict[str, Any]:
    """Time one whole (unmasked) chunk per device, as in a ring's later steps. Heads: of queries, of keys, features of one."""
    from strategies.kernels import chunk_kernel
    from strategies.kernels.interface import Attended

    chunk = chunk_kernel(kernel, block=block)  # type: ignore[arg-type]  # a name from the plan
    query, key, width = heads
    q, kv = _everywhere((1, tokens, query, width), dtype), _everywhere((2, 1, tokens, key, width), dtype)
    forward = _each(lambda q, kv: tuple(x[None] for x in chunk.forward(q[0], kv[0], mask="full")))
    if not backward:
        return timed(forward, q, kv)
    o, lse = forward(q, kv)

    def pull(q: Any, kv: Any, o: Any, lse: Any) -> Any:
        found = chunk.backward(q[0], kv[0], attended=Attended(o[0], lse[0]), do=o[0], mask="full")
        return tuple(x[None] for x in found)

    return timed(_each(pull), q, kv, o, lse)


def _collective(op: str, size_bytes: int, members: int) -> dict[str, Any]:
    """``size_bytes`` is the larger side of the operand on one device; groups of ``members`` neighbours, all at once."""
    from jax import lax

    rounds = [(rank, (rank + 1) % members) for rank in range(members)]
    calls: dict[str, Callable[[Any], Any]] = {
        "all-gather": lambda x: lax.all_gather(x, "member", tiled=True),
        "reduce-scatter": lambda x: lax.psum_scatter(x, "member", tiled=True),
        "all-reduce": lambda x: lax.psum(x, "member"),
        "all-to-all": lambda x: lax.all_to_all(x, "member", split_axis=0, concat_axis=0, tiled=True),
        "collective-permute": lambda x: lax.ppermute(x, "member", rounds),
    }
    length = size_bytes // 4 // (members if op == "all-gather" else 1)
    x = _everywhere((length,), "float32", members=members)
    return timed(_each(lambda x: calls[op](x[0])[None], members=members), x)


_KINDS: dict[str, Callable[..., dict[str, Any]]] = {
    "devices": _devices,
    "gemm": _gemm,
    "copy": _copy,
    "host": _host,
    "attention": _attention,
    "collective": _collective,
}


def _mesh(members: int) -> Any:
    import jax
    import numpy as np

    devices = np.array(jax.devices())
    return jax.sharding.Mesh(devices.reshape(-1, members), ("group", "member"))


def _everywhere(shape: tuple[int, ...], dtype: str, *, members: int = 1) -> Any:
    """Random numbers of this shape on every device; the leading dim counts devices."""
    import jax
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    make = partial(jax.random.normal, shape=(jax.device_count(), *shape), dtype=dtype)
    place = NamedSharding(_mesh(members), P(("group", "member")))
    return jax.jit(make, out_shardings=place)(jax.random.key(0))


def _each(function: Callable[..., Any], *, members: int = 1) -> Any:
    """``function`` of every device's own rows, under jit."""
    import jax
    from jax.sharding import PartitionSpec as P

    rows = P(("group", "member"))
    return jax.jit(jax.shard_map(function, mesh=_mesh(members), in_specs=rows, out_specs=rows, check_vma=False))


def timed(call: Callable[..., Any], *operands: Any) -> dict[str, Any]:
    """Seconds per call, several samples; the first call, which compiles, and the second do not count."""
    import jax

    jax.block_until_ready(call(*operands))
    start = time.perf_counter()
    jax.block_until_ready(call(*operands))
    once = time.perf_counter() - start
    repeats = max(1, min(100, round(ENOUGH_S / max(once, 1e-6))))
    samples: list[float] = []
    hosts = jax.devices()[0].platform == "cpu"
    begun = time.perf_counter()
    while len(samples) < SAMPLES and (len(samples) < 3 or time.perf_counter() - begun < PATIENCE_S):
        start = time.perf_counter()
        for _ in range(repeats):
            found = call(*operands)
            if hosts:  # two collectives in flight can wait for each other's threads for good
                jax.block_until_ready(found)
        jax.block_until_ready(found)
        samples.append((time.perf_counter() - start) / repeats)
    return {"samples": samples}
