"""The output of ``lcplan export``: files, the trainer's differences and their cost, how to run, the result of a check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from lcplan.evidence.measurement import Compiled
from lcplan.formats.units import format_bytes, format_seconds
from planner.export.check import CheckResult
from planner.export.cost import Cost, Effect
from planner.export.run import Export
from planner.report.terminal.tables import FittedTable, titled
from planner.trainers.common.own_compile import OwnMemory


def export_view(export: Export, files: Sequence[Path]) -> Group:
    """The export itself."""
    return Group(*_sections(export, files))


def _sections(export: Export, files: Sequence[Path]) -> Iterator[RenderableType]:
    trainer = export.translation.trainer
    yield Text(f"{export.cost.planned.strategy.label} for {trainer.title}", style="bold")
    for file in files:
        yield Text(f"wrote {file}")
    yield Text()
    if export.cost.effects:
        yield difference_table(export.cost.effects)
        yield cost_line(export.cost)
    else:
        yield Text("The trainer runs the plan as it is.", style="green")
    yield Text()
    yield Text(f"Run {export.launch.where}:", style="bold")
    for name, value in export.launch.environment.items():
        yield Text(f"  {name}={value}")
    yield Text(f"  {export.launch.line}", overflow="fold")
    for note in export.launch.notes:
        yield Text(f"  {note}", style="dim")


def difference_table(effects: Sequence[Effect]) -> FittedTable:
    """Each difference, and the effect of it by itself."""
    table = FittedTable()
    table.add_column("Where the trainer differs from the plan")
    table.add_column("step", justify="right", no_wrap=True)
    table.add_column("memory", justify="right", no_wrap=True)
    for effect in effects:
        difference, change = effect.difference, effect.memory_bytes_change
        step = "-" if effect.step_s_change is None else _signed(effect.step_s_change, format_seconds(abs(effect.step_s_change)))
        memory = "-" if change is None else _signed(change, format_bytes(abs(change)))
        words = Text(f"{difference.name}: {difference.plan} -> {difference.trainer}\n").append(
            f"  {difference.why}", style="dim"
        )
        table.add_row(words, step, memory)
    return table


def _signed(value: float, size: str) -> str:
    return "0" if value == 0 else f"{'+' if value > 0 else '-'}{size}"


def cost_line(cost: Cost) -> Text:
    """The whole of it, priced together."""
    planned, run = cost.planned.estimate, cost.run.estimate
    before = int(planned["memory_bytes"]["total"])
    text = (
        f"together: step {format_seconds(planned['step_s'])} -> {format_seconds(run['step_s'])} ({cost.step_ratio - 1:+.1%}), "
        f"memory {format_bytes(before)} -> {format_bytes(cost.run_bytes)}, modelled"
    )
    if cost.fits:
        return Text(text)
    over = cost.need_bytes - cost.budget_bytes
    return Text(f"{text}; that does not fit the budget, {format_bytes(over)} over", style="red")


def check_view(result: CheckResult) -> Text:
    """The result of the trainer's own parser."""
    where = f"{result.package} {result.version} ({result.python}, {result.seconds:.0f} s)"
    if result.good:
        return Text(f"\ncheck: {where} accepts the files and reads the plan back", style="green")
    if result.accepted:
        return Text(
            f"\ncheck: {where} accepts the files, but reads them otherwise: {'; '.join(result.mismatches)}", style="red"
        )
    return Text(f"\ncheck: {where} refuses: {result.said}", style="red")


def compile_view(theirs: OwnMemory, *, ours: Compiled | None, cost: Cost) -> Group:
    """The compiled memory of the trainer's step and of lcplan's, both by ``memory_analysis()``."""
    table = titled(f"Compiled for {theirs.topology}, a device")
    for name in ("", "argument", "temp", "total"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_row(theirs.label, *(format_bytes(x) for x in (theirs.argument_bytes, theirs.temp_bytes, theirs.total_bytes)))
    if ours is not None and ours.total_bytes is not None:
        temp = ours.temp_bytes or 0
        said = temp if ours.memory_analysis_temp_bytes is None else ours.memory_analysis_temp_bytes
        sizes = (ours.argument_bytes or 0, said, ours.total_bytes + said - temp)
        table.add_row(f"lcplan's step, {ours.rung}", *(format_bytes(x) for x in sizes))
    modelled = cost.run.estimate["memory_bytes"]
    table.add_row("the laws", format_bytes(modelled["params"] + modelled["optimizer"]), "-", format_bytes(modelled["total"]))
    return Group(Text(), table)
