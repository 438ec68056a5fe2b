"""The parameter that each array of an optimizer's state belongs to, found by its path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import PartitionSpec as P
from jax.tree_util import keystr, tree_flatten_with_path

from strategies.train.moments import is_blocks


@dataclass(frozen=True)
class Owners:
    """A state's arrays with the paths of their parameters; None: of no single one, as a count of steps."""

    leaves: list[Any]
    paths: list[str | None]
    shapes: dict[str, tuple[int, ...]]
    tree: Any

    def map(self, change: Callable[[str, Any], Any]) -> Any:
        """Return the state with ``change(path, array)`` in place of each array of its parameter's shape."""
        changed = [
            change(path, leaf) if path is not None and leaf.shape == self.shapes[path] else leaf
            for path, leaf in zip(self.paths, self.leaves, strict=True)
        ]
        return jax.tree.unflatten(self.tree, changed)

    def split(self, specs: dict[str, P]) -> Any:
        """Return a PartitionSpec for each array.

        An array of a parameter's shape, or with as many dims, is split like it. One that sums over a dim loses that dim's
        split. All else is whole.
        """
        found = [
            P() if path is None else split_like(leaf.shape, self.shapes[path], specs[path])
            for path, leaf in zip(self.paths, self.leaves, strict=True)
        ]
        return jax.tree.unflatten(self.tree, found)


def split_like(shape: tuple[int, ...], whole: tuple[int, ...], split: P) -> P:
    """Return the split of an array made from a parameter of shape ``whole``.

    >>> split_like((8, 2), (8, 512), P("fsdp", "tensor")), split_like((512,), (8, 512), P("fsdp", "tensor"))
    (PartitionSpec('fsdp', 'tensor'), PartitionSpec('tensor',))
    """
    axes = (*split, *(None,) * (len(whole) - len(split)))
    if len(shape) == len(whole) and shape[:-1] == whole[:-1]:
        return split
    for dim in range(len(whole)):
        if shape == (*whole[:dim], *whole[dim + 1 :]):
            return P(*axes[:dim], *axes[dim + 1 :])
    return P()


def owners(state: Any, params: Any, *, blocks: bool = False) -> Owners:
    """Find the parameter of each array of a state; ``blocks``: of the arrays that blocks consist of."""
    known = {keystr(path): (path, leaf.shape) for path, leaf in tree_flatten_with_path(params)[0]}
    pairs, tree = tree_flatten_with_path(state, is_leaf=None if blocks else is_blocks)
    longest = sorted(known, key=len, reverse=True)
    paths = [next((name for name in longest if _within(known[name][0], name, path)), None) for path, _ in pairs]
    return Owners([leaf for _, leaf in pairs], paths, {name: shape for name, (_, shape) in known.items()}, tree)


def _within(parameter: tuple[Any, ...], name: str, path: tuple[Any, ...]) -> bool:
    """Whether a state's path goes through the parameter's, or through a key of the parameter's name."""
    size = len(parameter)
    if any(path[start : start + size] == parameter for start in range(len(path) - size + 1)):
        return True
    return any(getattr(key, "key", None) == name for key in path)
