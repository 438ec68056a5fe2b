"""Compile cases of ``one_gpu.chunks`` for an H100 that is not there: ``chunks_on_target.py ID...``, in a process of its own.

Prints one JSON line of (id, names of the custom calls with how often each stands in the executable's text).
"""

import json
import re
import sys
from collections import Counter

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding
from one_gpu.chunks import CASES, REAL, emulated

from lcplan import catalog
from planner.measure.targets.target import gpu_target_config


def main(wanted):
    text = gpu_target_config(catalog.hardware("dgx-h100"), dnn=(9, 10, 2), runtime=(12, 9, 0))
    device = topologies.get_topology_desc(platform="cuda", target_config=text, topology="1x1x1").devices[0]
    where = SingleDeviceSharding(device)
    query, key = (1, REAL.tokens, REAL.heads, REAL.head_dim), (2, 1, REAL.tokens, REAL.kv_heads, REAL.head_dim)
    shapes = [jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=where) for shape in (query, key, query)]
    ids = jax.ShapeDtypeStruct((1, REAL.tokens), jnp.int32, sharding=where)
    for case in CASES:
        if case.id in wanted:
            hlo = emulated(case, REAL, kernel="cudnn").lower(*shapes, ids).compile().as_text()
            print(json.dumps([case.id, Counter(re.findall(r'custom_call_target="([^"]+)"', hlo))]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
