"""Why a row is not modelled: one of the reasons that docs/tables.md lists, and the field or value that causes it."""

from __future__ import annotations

from typing import Literal

Reason = Literal["pipeline axis", "precision below bf16", "architecture", "scheme", "offload", "incomplete configuration"]


class NotModelledError(Exception):
    """A row that the cost model cannot price."""

    def __init__(self, reason: Reason, detail: str) -> None:
        self.reason: Reason = reason
        super().__init__(f"{reason}: {detail}")
