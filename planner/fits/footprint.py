"""The footprint of a compiled step: the figures that a gate compares, and the baseline file that keeps them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from lcplan.evidence.execution import Buffer, StepCompiled
from lcplan.evidence.measurement import Compiled
from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.formats.frozen import Frozen
from lcplan.formats.textfile import read_json, write_text
from lcplan.spec.collective import CollectiveUse

BASELINE_VERSION = 1
PARTS = ("argument", "output", "temp", "alias")
"""Parts of an executable's memory; aliased (donated) bytes are not counted twice."""


class Footprint(Frozen):
    """One compiled step, of one strategy on one machine under one jax."""

    schema_version: int = BASELINE_VERSION
    subject: str
    """Name of the file or folder, without its place."""
    strategy: dict[str, Any]
    target: str
    jax: str
    rung: str
    argument_bytes: int
    output_bytes: int
    temp_bytes: int
    alias_bytes: int
    total_bytes: int
    allowance_bytes: int
    kernels: tuple[str, ...] = ()
    collectives: tuple[CollectiveUse, ...] = ()
    buffers: tuple[Buffer, ...] = ()

    @classmethod
    def of(cls, compiled: Compiled, *, subject: str, strategy: dict[str, Any], allowance_bytes: int) -> Self:
        """The footprint of a compile.

        Raises
        ------
        StageFailedError
            The compile failed, or shows no memory of the hardware's.
        """
        if compiled.error or compiled.total_bytes is None:
            raise StageFailedError(f"{subject} could not be compiled: {compiled.error or 'no memory is known'}")
        if compiled.rung == "compiled:host":
            raise StageFailedError(
                f"{subject} was compiled for host devices, whose memory is no figure of the hardware's: {compiled.warnings[0]}"
            )
        return cls(
            subject=subject,
            strategy=strategy,
            target=compiled.target,
            jax=compiled.jax,
            rung=compiled.rung,
            argument_bytes=compiled.argument_bytes or 0,
            output_bytes=compiled.output_bytes or 0,
            temp_bytes=compiled.temp_bytes or 0,
            alias_bytes=compiled.alias_bytes or 0,
            total_bytes=compiled.total_bytes,
            allowance_bytes=allowance_bytes,
            kernels=compiled.kernels,
            collectives=compiled.collectives,
            buffers=compiled.buffers if isinstance(compiled, StepCompiled) else (),
        )

    @property
    def need_bytes(self) -> int:
        """Memory with the allowance [bytes]."""
        return self.total_bytes + self.allowance_bytes

    @property
    def moved_by_axis(self) -> dict[str, int]:
        """Bytes of collectives per step, by axis."""
        moved: dict[str, int] = {}
        for use in self.collectives:
            moved[use.axis] = moved.get(use.axis, 0) + use.total_bytes
        return moved

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a baseline.

        Raises
        ------
        BadInputError
            It is no baseline, or one of a newer version.
        """
        data = read_json(path)
        version = data.get("schema_version") if isinstance(data, dict) else None
        if version != BASELINE_VERSION:
            raise BadInputError(
                f"{path}: schema_version {version!r:.40}; this lcplan reads baselines of version {BASELINE_VERSION}"
            )
        return cls.read(data, str(path))

    def save(self, path: Path) -> None:
        """Write a baseline, all or nothing.

        Raises
        ------
        StageFailedError
            It cannot be written.
        """
        try:
            write_text(path, json.dumps(self.model_dump(mode="json"), indent=1) + "\n")
        except OSError as error:
            raise StageFailedError(f"{path}: {error.strerror or error}") from None


def merged(collectives: Sequence[CollectiveUse]) -> dict[tuple[str, str, int], int]:
    """Calls by (op, axis, bytes)."""
    found: dict[tuple[str, str, int], int] = {}
    for use in collectives:
        key = (use.op, use.axis, use.bytes)
        found[key] = found.get(key, 0) + use.calls
    return found
