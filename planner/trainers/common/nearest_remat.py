"""Find lcplan's nearest remat policy that keeps at least a trainer's set of saved tensors."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from lcplan.strategy.remat import LAYER_IN, REMAT_POLICIES, RematName

_OF_EXPERTS = {"dispatched"}
"""Tensors that a dense model does not have, so that its file keeps a policy without them."""


def nearest_superset(saved: Collection[str], offloaded: Collection[str] = ()) -> tuple[RematName, bool]:
    """The policy with the fewest tensors that keeps all of ``saved`` and ``offloaded``, and whether it keeps just these so.

    It sends no other tensor to the host: that would promise memory that the device does not have.

    >>> nearest_superset({"attention_output", "lse"})
    ('save-attention', True)
    >>> nearest_superset({"lse"})
    ('save-attention', False)
    >>> nearest_superset((), {"layer_in"})
    ('offload-layer-in', True)
    """
    wanted, away = {*saved, *offloaded} - {LAYER_IN}, set(offloaded)
    strays = {name: len(away ^ set(policy.offloaded)) for name, policy in REMAT_POLICIES.items()}
    enough = [name for name, policy in REMAT_POLICIES.items() if set(policy.saved) >= wanted and set(policy.offloaded) <= away]
    name = min(enough, key=lambda name: (strays[name], len(REMAT_POLICIES[name].saved)))
    whole = set(REMAT_POLICIES[name].saved)
    return cast("RematName", name), strays[name] == 0 and wanted in (whole, whole - _OF_EXPERTS)
