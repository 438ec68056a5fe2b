"""Measurements: the results of a compile or a timed run of one strategy."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lcplan.formats.frozen import Frozen
from lcplan.spec.collective import CollectiveUse

Rung = Literal["modelled", "compiled:host", "compiled:target", "timed:slice", "timed:full"]
RUNGS: tuple[Rung, ...] = ("modelled", "compiled:host", "compiled:target", "timed:slice", "timed:full")


Bytes = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Schedule(Frozen):
    """How an executable schedules its collectives, in instructions of its text (a loop's body counts once)."""

    asynchronous: int
    """Begun and ended by two instructions."""
    overlapped: int
    """Asynchronous collectives with compute between start and done."""
    combined: int
    """Collectives that carry several arrays in one message."""


class Compiled(Frozen):
    """One compile of one strategy's real step: ``memory_analysis()`` a device, collectives, kernels; or why it failed.

    All byte fields are a device's. ``total_bytes`` is argument + output + temp - alias + resident. Of TPU executables
    ``temp_bytes`` is libtpu's own account, and ``memory_analysis_temp_bytes`` the figure of ``memory_analysis()``, which
    counts fragmentation twice.
    """

    rung: Literal["compiled:host", "compiled:target"]
    target: str
    jax: str
    finished_at: str
    compile_s: Seconds
    argument_bytes: Bytes | None = None
    output_bytes: Bytes | None = None
    temp_bytes: Bytes | None = None
    alias_bytes: Bytes | None = None
    memory_analysis_temp_bytes: Bytes | None = None
    host_temp_bytes: Bytes | None = None
    resident_bytes: Bytes = 0
    """Arrays of the workload's other programs that stay in memory while the largest program runs; part of ``total_bytes``."""
    total_bytes: Bytes | None = None
    fits: bool | None = None
    kernels: tuple[str, ...] = ()
    collectives: tuple[CollectiveUse, ...] = ()
    schedule: Schedule | None = None
    warnings: tuple[str, ...] = ()
    error: str | None = None
    step_of: str = ""
    """The trainer whose own step it is, with its version; empty: lcplan's step, or a step file's."""
    programs: dict[str, Compiled] = {}
    """Compiles of the programs of a workload that has several; the fields above are those of the largest one."""


class Extrapolation(Frozen):
    """Extrapolate steps of a few layers to the full depth: a line through two timings."""

    layers: tuple[int, ...]
    step_s: tuple[float, ...]
    """Step time by number of layers [s]."""


class Timed(Frozen):
    """Timing of a strategy's step, or of one rank's slice of it: the median of ``samples``, and how it came about.

    ``peak_bytes`` is the fullest device's allocator peak, comparable with ``compiled.total_bytes``; None where the backend
    keeps no count (a host's does not).
    """

    rung: Literal["timed:slice", "timed:full"]
    device: str
    jax: str
    finished_at: str
    step_s: Seconds | None = None
    warmup: tuple[float, ...] = ()
    """Seconds of the steps before the samples; the first of them compiles."""
    samples: tuple[float, ...] = ()
    spread_ratio: float | None = None
    """(largest - smallest) / median of the samples."""
    loss: float | None = None
    """Loss of the last step; finite unless ``error`` is given."""
    peak_bytes: Bytes | None = None
    extrapolation: Extrapolation | None = None
    """Timings of a slice before extrapolation; ``samples`` are extrapolated from those of the deeper slice."""
    rank_s: Seconds | None = None
    """Time of one rank's whole step without communication, for a slice [s]; ``step_s`` adds ``added_s`` to it."""
    added_s: dict[str, float] = {}
    """Modelled time by part, added to the measured time [s]: exposed communication of a slice, resharding between programs."""
    ranks_in_turn: int = 1
    """Ranks of a slice that share the device's cores and so run one after another (a host's devices)."""
    error: str | None = None
    programs: dict[str, Timed] = {}
    """Timings of the programs of a workload that has several; ``step_s`` is their sum."""
