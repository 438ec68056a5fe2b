"""KeptTensors: what remat policies, or another trainer's program, keep of a layer for its backward pass, and where."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from cost_models.program import Program
from cost_models.table import REMATS, Codes
from lcplan.remat import LAYER_IN, NAMED_TENSORS, REMAT_POLICIES

Bools = NDArray[np.bool_]

_SAVED_BY: dict[str, tuple[int, ...]] = {
    tensor: tuple(code for code, policy in enumerate(REMATS) if tensor in REMAT_POLICIES[policy].saved)
    for tensor in NAMED_TENSORS
}
"""Codes of the policies that keep each named tensor, on the device or on the host."""
_OFFLOADED_BY: dict[str, tuple[int, ...]] = {
    tensor: tuple(code for code, policy in enumerate(REMATS) if tensor in REMAT_POLICIES[policy].offloaded)
    for tensor in (LAYER_IN, *NAMED_TENSORS)
}
"""Codes of the policies that keep each named tensor on the host."""


@dataclass(frozen=True)
class KeptTensors:
    """By named tensor, the rows that keep it, shape ``[n]``. ``remat`` is the policies' column."""

    remat: Codes
    program: Program

    @cached_property
    def saved(self) -> dict[str, Bools]:
        """On the device or on the host."""
        if self.program.saved is not None:
            return {tensor: np.full(len(self.remat), tensor in self.program.saved) for tensor in NAMED_TENSORS}
        return {tensor: self._under(codes) for tensor, codes in _SAVED_BY.items()}

    @cached_property
    def offloaded(self) -> dict[str, Bools]:
        """On the host, where any row offloads it."""
        away = self.program.offloaded
        found = {tensor: self._under(codes) | (tensor in away) for tensor, codes in _OFFLOADED_BY.items()}
        return {tensor: rows for tensor, rows in found.items() if rows.any()}

    @cached_property
    def _policies(self) -> dict[int, Bools]:
        return {int(code): self.remat == code for code in np.unique(self.remat)}

    def _under(self, codes: tuple[int, ...]) -> Bools:
        """Rows whose policy is one of ``codes``."""
        chosen = [self._policies[code] for code in codes if code in self._policies]
        return reduce(np.logical_or, chosen) if chosen else np.zeros(len(self.remat), dtype=np.bool_)
