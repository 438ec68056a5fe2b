"""Small helpers for step files, which ``lcplan.step`` offers: meshes from axes, and abstract arguments with shardings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any


def mesh(axes: Mapping[str, int], devices: Sequence[Any] | None = None) -> Any:
    """Make a mesh with these axes, outermost first, over devices (default: jax's, in the order of ``jax.make_mesh``).

    Raises
    ------
    ValueError
        There are fewer devices than the axes take.
    """
    import jax

    count = prod(axes.values())
    found = list(jax.devices() if devices is None else devices)
    if len(found) < count:
        raise ValueError(f"the axes {dict(axes)} take {count} devices, and there are {len(found)}")
    if devices is None:
        return jax.make_mesh(tuple(axes.values()), tuple(axes), devices=found[:count])
    import numpy as np

    return jax.sharding.Mesh(np.array(found[:count]).reshape(tuple(axes.values())), tuple(axes))


def abstract(shape: Sequence[int], dtype: Any, *, mesh: Any, spec: Any = None) -> Any:
    """Return the shape of one argument, sharded by a PartitionSpec; None: a copy on every device."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    sharding = NamedSharding(mesh, PartitionSpec() if spec is None else spec)
    return jax.ShapeDtypeStruct(tuple(shape), dtype, sharding=sharding)


def abstract_state(
    init: Callable[..., Any], *arguments: Any, mesh: Any, spec: Any | Callable[[str, tuple[int, ...]], Any] = None
) -> Any:
    """Return the state that ``init(*arguments)`` would make, as shapes with shardings; ``init`` is traced and never run.

    Parameters
    ----------
    init
        Makes parameters, an optimizer's state, or both.
    arguments
        Arguments of ``init``, such as ``jax.random.key(0)``.
    mesh
        The mesh that ``build`` is given.
    spec
        A PartitionSpec for all arrays, a tree of them with the structure of the state, or a function of an array's path
        (``params/layers/up``) and shape. None: a copy on every device.

    Raises
    ------
    ValueError
        A tree of specs has another structure than the state.
    """
    import jax
    from jax.sharding import PartitionSpec

    shapes = jax.eval_shape(init, *arguments)
    if spec is None or isinstance(spec, PartitionSpec):
        return jax.tree.map(lambda one: abstract(one.shape, one.dtype, mesh=mesh, spec=spec), shapes)
    if callable(spec):
        return jax.tree_util.tree_map_with_path(
            lambda path, one: abstract(one.shape, one.dtype, mesh=mesh, spec=spec(name_of(path), one.shape)), shapes
        )
    return jax.tree.map(lambda one, own: abstract(one.shape, one.dtype, mesh=mesh, spec=own), shapes, spec)


def name_of(path: Sequence[Any]) -> str:
    """Return a path of ``jax.tree_util`` as words: ``params/layers/up``."""
    words = (getattr(key, "key", getattr(key, "name", getattr(key, "idx", key))) for key in path)
    return "/".join(str(word) for word in words)
