"""Compiles one reduce-scatter over all devices of a TPU slice that is not there; a script, for a process of its own.

``target_scatter.py JSON`` with the slice's catalogue name, the array's rows and columns, and whether it goes by tiles; prints
what the executable has instead of it as one JSON line.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from lcplan.catalog import hardware
from planner.measure.hlo.executable import read_executable
from planner.measure.hlo.groups import MeshView
from strategies.parallel.collectives import reduce_scatter, reduce_scatter_tiles


def main(request: dict[str, Any]) -> list[tuple[str, int]]:
    """Kind and bytes of each collective over all devices."""
    machine = hardware(request["hardware"])
    described = topologies.get_topology_desc(
        platform="tpu", topology_name=machine.topology_name, **machine.topology_options
    ).devices
    mesh = Mesh(np.array(described, dtype=object), ("fsdp",))
    scatter = partial(reduce_scatter_tiles if request["tiles"] else reduce_scatter, axes="fsdp")
    step = jax.shard_map(lambda x: scatter(2 * x), mesh=mesh, in_specs=P(), out_specs=P("fsdp"), check_vma=False)
    whole = jax.ShapeDtypeStruct(request["shape"], jnp.float32, sharding=NamedSharding(mesh, P()))
    text = jax.jit(step).lower(whole).compile().as_text()
    facts = read_executable(text, mesh=MeshView(("fsdp",), (len(described),)), kind="tpu")
    return [(use.op, use.bytes) for use in facts.collectives if use.op != "collective-permute"]


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
