"""KeptTensors: the tensors of a layer that a remat policy or a trainer's program keeps for the backward pass, and where."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cost_models.inputs.program import Program
from cost_models.inputs.table import REMATS, Codes
from lcplan.strategy.remat import LAYER_IN, NAMED_TENSORS, REMAT_POLICIES

Bools = NDArray[np.bool_]

_SAVED_BY: dict[str, Bools] = {
    tensor: np.array([tensor in REMAT_POLICIES[policy].saved for policy in REMATS]) for tensor in NAMED_TENSORS
}
"""Whether each policy keeps a named tensor, on the device or on the host: by name, then by code of the policy."""
_OFFLOADED_BY: dict[str, Bools] = {
    tensor: np.array([tensor in REMAT_POLICIES[policy].offloaded for policy in REMATS]) for tensor in (LAYER_IN, *NAMED_TENSORS)
}
"""Whether each policy keeps a named tensor on the host: by name, then by code of the policy."""


@dataclass(frozen=True)
class KeptTensors:
    """The rows that keep each named tensor of a layer, shape ``[n]``. ``remat`` is the column of policies.

    Source: lcplan/strategy/remat.py.
    """

    remat: Codes
    program: Program

    @cached_property
    def saved(self) -> dict[str, Bools]:
        """Rows that keep each named tensor, on the device or on the host."""
        if self.program.saved is not None:
            return {tensor: np.full(len(self.remat), tensor in self.program.saved) for tensor in NAMED_TENSORS}
        return {tensor: policies[self._codes] for tensor, policies in _SAVED_BY.items()}

    @cached_property
    def offloaded(self) -> dict[str, Bools]:
        """Rows that keep each named tensor on the host; tensors that no row offloads are left out."""
        away, present = self.program.offloaded, np.bincount(self._codes, minlength=len(REMATS)) > 0
        return {
            tensor: policies[self._codes] | (tensor in away)
            for tensor, policies in _OFFLOADED_BY.items()
            if tensor in away or (policies & present).any()
        }

    @cached_property
    def _codes(self) -> NDArray[np.intp]:
        return self.remat.astype(np.intp)
