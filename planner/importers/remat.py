"""From a trainer's set of saved tensors to the nearest of lcplan's remat policies that keeps at least these."""

from __future__ import annotations

from collections.abc import Collection

from lcplan.remat import REMAT_POLICIES, RematName


def nearest_superset(saved: Collection[str]) -> tuple[RematName, bool]:
    """The policy with the fewest tensors that keeps all of ``saved``, and whether it keeps just these.

    >>> nearest_superset({"context", "lse"})
    ('save-attention', True)
    >>> nearest_superset({"query"})
    ('save-qkv', False)
    """
    policies: dict[RematName, frozenset[str]] = {name: frozenset(kept) for name, kept in REMAT_POLICIES.items()}  # type: ignore[misc]
    name = min((name for name, kept in policies.items() if kept >= set(saved)), key=lambda name: len(policies[name]))
    return name, policies[name] == set(saved)
