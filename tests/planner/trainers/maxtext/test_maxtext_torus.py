"""A mesh on a TPU's torus: held against jax's own function, with stand-ins for devices."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from planner.trainers.maxtext.torus import unplaced


def jax_refuses(sizes, torus):
    """Whether ``create_device_mesh`` finds no place; devices of a kind that it has no order of its own for."""
    mesh_utils = pytest.importorskip("jax._src.mesh_utils")
    shape = (*torus, *(1,) * (3 - len(torus)))
    devices = [
        SimpleNamespace(platform="tpu", device_kind="TPU v4", coords=(x, y, z), core_on_chip=0, id=number, process_index=0)
        for number, (z, y, x) in enumerate(product(*(range(edge) for edge in reversed(shape))))
    ]
    try:
        mesh_utils.create_device_mesh(sizes, devices)
    except NotImplementedError:
        return True
    return False


@pytest.mark.parametrize("torus", [(4, 4, 4), (2, 4, 4), (16, 16), (4, 8)])
def test_jax_says_the_same_of_every_mesh(torus):
    chips = int(np.prod(torus))
    powers = [2**n for n in range(chips.bit_length())]
    meshes = [sizes for sizes in product(powers, repeat=3) if np.prod(sizes) == chips]
    assert len(meshes) > 10
    for sizes in meshes:
        found = unplaced(dict(zip(("fsdp", "context", "tensor"), sizes, strict=True)), torus)
        assert (found is not None) == jax_refuses(sizes, torus), sizes
