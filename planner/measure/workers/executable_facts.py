"""All facts of an executable: memory, collectives, operations, and the largest buffers at its peak."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lcplan.evidence.execution import Inside
from planner.measure.hlo.buffers import Sources, peak_buffers
from planner.measure.hlo.executable import CollectiveWalk, read_executable
from planner.measure.hlo.groups import MeshView
from planner.measure.hlo.libtpu_memory import temporaries
from planner.measure.hlo.live_memory import memory_curve
from planner.measure.hlo.operations import read_execution
from planner.measure.hlo.saved import MOST, saved_arrays
from planner.measure.hlo.text import Module, parse_module
from planner.measure.targets.target import Target
from planner.measure.workers.compiled_memory import memory_of


def facts_of(compiled: Any, target: Target, view: MeshView, *, dumps: Path, inside: bool = False) -> dict[str, Any]:
    """Return the fields of a ``StepCompiled``; ``dumps`` is the folder to which the compiler wrote its accounts.

    ``inside``: also the arrays that are saved for the backward pass, and memory over the schedule.
    """
    text = compiled.as_text()
    module = parse_module(text)
    facts = read_executable(text, mesh=view, kind=target.compiler).model_dump(mode="json")
    execution = read_execution(module, mesh=view, walk=CollectiveWalk(module, view, target.compiler))
    exact = temporaries(dumps) if target.platform == "tpu" else None
    return {
        **memory_of(compiled, exact),
        **facts,
        "buffers": [one.model_dump(mode="json") for one in peak_buffers(dumps, text, module)],
        "execution": execution.model_dump(mode="json"),
        "inside": _inside(module, text, dumps).model_dump(mode="json") if inside else None,
    }


def _inside(module: Module, text: str, dumps: Path) -> Inside:
    sources = Sources(text)
    saved = saved_arrays(module, sources)
    curve = memory_curve(dumps, module, sources)
    return Inside(saved=tuple(saved[:MOST]), saved_bytes=sum(one.bytes for one in saved), memory=curve)
