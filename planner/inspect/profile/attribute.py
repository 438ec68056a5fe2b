"""Names: the part of a step's time that each operation of a profile belongs to, and the axis of each collective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cost_models.parts.time import STEP_TIME
from lcplan.strategy.scopes import ATTENTION, RECOMPUTED
from planner.explain.traffic import Transfer
from planner.inspect.profile.operation import Operation
from planner.measure.hlo.groups import MeshView

UNNAMED = "unnamed"
"""Time of operations that the profile gives no kind."""
COMMUNICATION = "communication"
"""A collective that no part of the plan, or no plan, names."""
TRANSFERS = "overhead"
"""Copies over the link to the host, where nothing hides them."""
_KIND = {part.key: part.kind for part in STEP_TIME}
_SCOPES = {part.scope: part.key for part in sorted(STEP_TIME, key=lambda part: part.scope != RECOMPUTED) if part.scope}
"""Parts by their scope; repeated work is recomputation, whatever it repeats."""
_BY_KIND = {"product": "gemm", "attention": "attention", "memory": "hbm", "transfer": TRANSFERS}


def rank_of(key: str) -> int:
    """Return the rank of a part's time: compute first, then communication, which compute hides."""
    kind = _KIND.get(key, "communication" if key == COMMUNICATION else "compute")
    return {"compute": 0, "communication": 1, "host": 2}[kind]


@dataclass(frozen=True)
class Names:
    """Gives operations their part. Without a plan, collectives have no axis and attention only where a kernel names it."""

    mesh: MeshView | None = None
    transfers: Sequence[Transfer] = ()
    """Collectives of the plan by the cost model, most time first."""

    def part(self, one: Operation) -> str:
        """Return the key of the part; empty for a container."""
        if one.kind == "container":
            return ""
        if one.kind == "collective":
            return self._communication(one)
        words = _words(one.path)
        for scope, key in _SCOPES.items():
            if scope in words and one.kind != "transfer":
                return key
        return _BY_KIND.get(one.kind, UNNAMED)

    def collective(self, one: Operation) -> tuple[str, str]:
        """Return a collective's op, and its axis by the plan's mesh or else the size of its groups."""
        return one.collective, self._axis(one)

    def _axis(self, one: Operation) -> str:
        if self.mesh is not None and one.pairs:
            return self.mesh.axis_of_pairs(one.pairs)
        if self.mesh is not None and one.groups:
            return self.mesh.axis_of_groups(one.groups)
        members = max((len(group) for group in one.groups), default=0)
        return f"groups of {members}" if members else "?"

    def _communication(self, one: Operation) -> str:
        op, axis = self.collective(one)
        found = [move.part for move in self.transfers if (move.op, move.axis) == (op, axis)]
        found = found or [move.part for move in self.transfers if move.axis == axis]
        if ATTENTION in _words(one.path) and "comm_context" in found:
            return "comm_context"
        rest = [part for part in found if part != "comm_context"]
        return (rest or found or [COMMUNICATION])[0]


def _words(path: str) -> frozenset[str]:
    """Return the scopes of a path: ``jit(step)/transpose(jvp(loss))/dot`` has ``loss``."""
    return frozenset(path.replace("(", "/").replace(")", "/").split("/"))
