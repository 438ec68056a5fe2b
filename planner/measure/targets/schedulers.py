"""Scheduler presets: the options that each sets, by the flag's true name under each jax.

A preset holds for a kind of hardware as far as it has options there. Names and versions were tried: a deviceless compile with
``compiler_options`` under jax 0.10.1, which refuses a name that it does not know ("No such compile option"); the flag tables of
jaxlib 0.7.2 to 0.12.0 for the others (``DebugOptions``). Each compile checks every name again, so it finds a wrong table.
"""

from __future__ import annotations

from typing import Literal

from lcplan.spec.hardware import HardwareSpec
from lcplan.strategy import SCHEDULERS, Scheduler
from planner.measure.targets.compile_option import Option, Verdict, active, dotted, version_of

Kind = Literal["gpu", "tpu", "cpu"]

_FIRST = (0, 9, 2)
"""The first jax that compiles deviceless; older ones are not asked."""
COMBINE_BYTES = {"combined-64mib": 2**26, "combined": 2**28, "combined-1gib": 2**30}
"""Twice, eight and 34 times XLA's default for GPU of 31457287 bytes (``XLA_FLAGS=--help`` of jaxlib 0.12.0). On TPU they bound
only all-reduces: no threshold that libtpu (of jax 0.10.1) takes was seen to combine a step's gathers or scatters."""

RECORDED = "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,COLLECTIVES,CONDITIONAL,WHILE,DYNAMIC_SLICE_FUSION"
"""Commands that CUDA graphs record: XLA's defaults (``XLA_FLAGS=--help`` of jaxlib 0.12.0), collectives and loops."""


def _switch(name: str, on: bool, *, last: tuple[int, ...] | None = None) -> Option:
    return Option(name, on, "true" if on else "false", _FIRST, last)


def _threshold(name: str, size: int) -> Option:
    return Option(name, str(size), str(size), _FIRST, None)


def _pipelined(op: str) -> tuple[Option, ...]:
    """Renamed in jaxlib 0.11.1, from a switch to a mode; there the old name parses in XLA_FLAGS only."""
    return (
        _switch(f"xla_gpu_enable_pipelined_{op}", True, last=(0, 11, 0)),
        Option(f"xla_gpu_pipeline_{op}", "COLLECTIVE_PIPELINING_MODE_ON", "on", (0, 11, 1), None),
    )


_REDUCING = ("all_gather", "reduce_scatter", "all_reduce")

PRESETS: dict[str, dict[Kind, tuple[Option, ...]]] = {
    "default": {"gpu": (), "tpu": (), "cpu": ()},
    "latency-hiding": {
        "gpu": (_switch("xla_gpu_enable_latency_hiding_scheduler", True),),
        "tpu": (_switch("xla_tpu_enable_latency_hiding_scheduler", True),),
    },
    # XLA's own latency estimate turns the scheduler on by itself on Hopper and Blackwell, so both switches go.
    "no-latency-hiding": {
        "gpu": (
            _switch("xla_gpu_enable_latency_hiding_scheduler", False),
            _switch("xla_gpu_enable_analytical_sol_latency_estimator", False),
        ),
        "tpu": (_switch("xla_tpu_enable_latency_hiding_scheduler", False),),
    },
    "pipelined": {"gpu": tuple(option for op in _REDUCING for option in _pipelined(op))},
    **{
        name: {
            "gpu": tuple(_threshold(f"xla_gpu_{op}_combine_threshold_bytes", size) for op in _REDUCING),
            "tpu": (_threshold("xla_jf_crs_combiner_threshold_in_bytes", size),),
        }
        for name, size in COMBINE_BYTES.items()
    },
    "synchronous": {
        "gpu": (Option("xla_gpu_disable_async_collectives", "ALLCOLLECTIVES", "ALLCOLLECTIVES", _FIRST, None),),
    },
    "command-buffers": {"gpu": (Option("xla_gpu_enable_command_buffer", RECORDED, RECORDED, _FIRST, None),)},
    "no-command-buffers": {"gpu": (Option("xla_gpu_enable_command_buffer", "", "", _FIRST, None),)},
    # Renamed in jaxlib 0.11.1, where one-shot and two-shot kernels became one filter of collectives; 0.12.0 has it by default.
    "one-shot-all-reduce": {
        "gpu": (
            _switch("xla_gpu_unsupported_use_all_reduce_one_shot_kernel", True, last=(0, 11, 0)),
            Option(
                "xla_gpu_experimental_use_collective_kernels", "COLLECTIVE_KERNEL_ALL_REDUCE", "ALL_REDUCE", (0, 11, 1), None
            ),
        ),
    },
}

assert tuple(PRESETS) == SCHEDULERS


def scheduler_options(scheduler: Scheduler, kind: Kind, *, jax: str) -> tuple[Option, ...]:
    """Options of the preset under this jax; empty where the kind has no such flags."""
    return active(PRESETS[scheduler].get(kind, ()), jax)


def scheduler_verdict(scheduler: str, hardware: HardwareSpec, *, jax: str) -> Verdict:
    """Whether the preset means anything for this hardware under this jax; else why not.

    >>> from lcplan import catalog
    >>> scheduler_verdict("pipelined", catalog.hardware("tpu-v5p-8"), jax="0.10.1")
    'it has no flags for tpu; there are default, latency-hiding, no-latency-hiding, combined-64mib, combined, combined-1gib'
    >>> scheduler_verdict("combined", catalog.hardware("dgx-h100"), jax="0.8.2")
    'jax 0.8.2 was not tried with xla_gpu_all_gather_combine_threshold_bytes: 0.9.2 and newer were'
    """
    offered = [name for name in SCHEDULERS if hardware.kind in PRESETS[name]]
    if scheduler not in offered:
        return f"it has no flags for {hardware.kind}; there are {', '.join(offered)}"
    options = PRESETS[scheduler].get(hardware.kind, ())
    if options and not active(options, jax) and version_of(jax) < _FIRST:
        return f"jax {jax} was not tried with {options[0].name}: {dotted(_FIRST)} and newer were"
    return True
