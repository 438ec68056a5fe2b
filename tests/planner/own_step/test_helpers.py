"""``lcplan.step``: meshes from axes, and abstract arguments."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

from lcplan import step

ONE = {"x": 1, "y": 1}


def init(key):
    return {"w": jax.random.normal(key, (8, 4)), "b": jnp.zeros(4)}


def test_mesh_has_the_axes():
    assert dict(step.mesh(ONE).shape) == ONE
    assert dict(step.mesh(ONE, jax.devices()).shape) == ONE
    with pytest.raises(ValueError, match="take 1048576 devices"):
        step.mesh({"x": 2**20})


def test_state_is_traced_and_sharded():
    mesh = step.mesh(ONE)
    whole = step.abstract_state(init, jax.random.key(0), mesh=mesh)
    assert (whole["w"].shape, whole["w"].dtype, whole["w"].sharding.spec) == ((8, 4), jnp.float32, P())
    tree = step.abstract_state(init, jax.random.key(0), mesh=mesh, spec={"w": P("x", "y"), "b": P("y")})
    assert (tree["w"].sharding.spec, tree["b"].sharding.spec) == (P("x", "y"), P("y"))
    named = step.abstract_state(init, jax.random.key(0), mesh=mesh, spec=lambda path, shape: P("x") if path == "w" else P())
    assert (named["w"].sharding.spec, named["b"].sharding.spec) == (P("x"), P())


def test_lcplan_step_loads_jax_on_first_use():
    assert set(step.__all__) == {"abstract", "abstract_state", "mesh"}
    with pytest.raises(AttributeError, match=r"lcplan\.step"):
        step.no_such  # noqa: B018
