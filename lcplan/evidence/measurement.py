"""Measurements: what a compiler or a clock said of one strategy."""

from __future__ import annotations

from typing import Literal

from lcplan.formats.frozen import Frozen
from lcplan.spec.collective import CollectiveUse

Rung = Literal["modelled", "compiled:host", "compiled:target", "timed:slice", "timed:full"]
RUNGS: tuple[Rung, ...] = ("modelled", "compiled:host", "compiled:target", "timed:slice", "timed:full")


class Schedule(Frozen):
    """What an executable's schedule does with its collectives, in instructions of its text (a loop's count once)."""

    asynchronous: int
    """Begun and ended by two instructions."""
    overlapped: int
    """Of these, with compute between the two."""
    combined: int
    """That carry several arrays in one message."""


class Compiled(Frozen):
    """One compile of one strategy's real step: ``memory_analysis()`` a device, collectives, kernels; or why it failed.

    All byte fields are a device's. ``total_bytes`` is argument + output + temp - alias. Of TPU executables ``temp_bytes`` is
    libtpu's own account, and ``memory_analysis_temp_bytes`` what ``memory_analysis()`` says, which holds fragmentation twice.
    """

    rung: Literal["compiled:host", "compiled:target"]
    target: str
    jax: str
    finished_at: str
    compile_s: float
    argument_bytes: int | None = None
    output_bytes: int | None = None
    temp_bytes: int | None = None
    alias_bytes: int | None = None
    memory_analysis_temp_bytes: int | None = None
    host_temp_bytes: int | None = None
    total_bytes: int | None = None
    fits: bool | None = None
    kernels: tuple[str, ...] = ()
    collectives: tuple[CollectiveUse, ...] = ()
    schedule: Schedule | None = None
    warnings: tuple[str, ...] = ()
    error: str | None = None


class Extrapolation(Frozen):
    """From steps of a few layers to the whole depth: a line through two."""

    layers: tuple[int, ...]
    step_s: tuple[float, ...]
    """Of a step with so many layers [s]."""


class Timed(Frozen):
    """Timing of a strategy's step, or of one rank's slice of it: the median of ``samples``, and how it came about.

    ``peak_bytes`` is the fullest device's allocator peak, to be read beside ``compiled.total_bytes``; None where the backend
    keeps no count (a host's does not).
    """

    rung: Literal["timed:slice", "timed:full"]
    device: str
    jax: str
    finished_at: str
    step_s: float | None = None
    warmup: tuple[float, ...] = ()
    """Seconds of the steps before the samples; the first of them compiles."""
    samples: tuple[float, ...] = ()
    spread_ratio: float | None = None
    """(largest - smallest) / median of the samples."""
    loss: float | None = None
    """Of the last step; a finite number unless ``error`` says otherwise."""
    peak_bytes: int | None = None
    extrapolation: Extrapolation | None = None
    """Of a slice: what ``samples`` (of the deeper one) were drawn out from."""
    rank_s: float | None = None
    """Of a slice: one rank's whole step without communication [s]; ``step_s`` has ``added_s`` on top."""
    added_s: dict[str, float] = {}
    """Of a slice: modelled exposed time by part, which was added [s]."""
    ranks_in_turn: int = 1
    """Of a slice: ranks that share the device's cores, whose work follows one another (a host's devices)."""
    error: str | None = None
