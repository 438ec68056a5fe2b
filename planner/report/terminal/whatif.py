"""The output of ``lcplan whatif``: the boundary with its reasons, and the points as a table with bars."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from lcplan.formats.units import GIB, format_bytes, format_seconds, format_tokens
from lcplan.strategy import letters
from planner.candidates.candidate import Candidate
from planner.report.terminal.candidates import breakdown
from planner.report.terminal.estimate import bases, speed, verdict
from planner.report.terminal.headline import headline
from planner.report.terminal.tables import FittedTable, titled
from planner.report.view.labels import mesh_label
from planner.report.view.marks import LEGEND
from planner.report.view.performance import Performance, host, host_bytes, memory_shares
from planner.what_if.refine import CompiledBoundary
from planner.what_if.result import QUANTITY, Boundary, Point, WhatIf

BAR_WIDTH = 6
SHOWN_CHANGES = 6
_UNITS = {"seq_len": "tokens", "devices": "devices", "global_batch": "sequences"}
_BYTES = frozenset({"hbm"})
_HEADINGS = {"bandwidth": "GB/s one way"}


def whatif_view(result: WhatIf) -> Group:
    """The whole answer."""
    return Group(*_sections(result))


def _sections(result: WhatIf) -> Iterator[RenderableType]:
    yield headline(result.request)
    yield Text(f"at most {result.most_devices} devices", style="dim")
    if result.answer is not None:
        yield Text()
        yield from _boundary(result.answer, result)
    if result.points:
        yield Text()
        yield _points(result)
        axes = letters(*result.request.optional_axes)
        yield Text(f"mesh: devices: {axes};  binds: the part or rule in the way", style="dim")
    yield Text(LEGEND, style="dim")
    for note in result.notes:
        yield Text(f"note: {note}", style="yellow")


def amount(quantity: str, value: int) -> str:
    """A boundary's value with its unit, as a person reads it."""
    if quantity == "seq_len" and value % 1024 == 0:
        return f"{format_tokens(value)} ({value:,}) tokens"
    return f"{value:,} {_UNITS[quantity] if value != 1 else _UNITS[quantity].removesuffix('s')}"


def _boundary(found: Boundary, result: WhatIf) -> Iterator[RenderableType]:
    quantity = QUANTITY[result.question]
    shown = found.best
    if shown is None:
        yield Text(f"{result.question}: nothing fits", style="bold red")
    else:
        yield Text(f"{result.question}: {_answer(found, quantity)}", style="bold green")
        yield Text(shown.strategy.label, style="bold")
        yield verdict(shown, found.request)
        if words := host(shown, found.request.hardware):
            yield Text(words)
        yield speed(shown)
        yield from bases(shown)
        yield Text(result.cost(shown, found.request).says)
        yield Text("\nMemory by part (modelled)", style="dim")
        yield breakdown(memory_shares(shown))
    yield Text()
    yield from _reasons(found, quantity)
    if found.changes:
        yield Text()
        yield _changes(found, quantity)


def _answer(found: Boundary, quantity: str) -> str:
    """The boundary: that of the compiler where it found another one, with the modelled one after it."""
    assert found.answered is not None, "a boundary with an answer"
    if found.answered == found.value:
        return amount(quantity, found.answered)
    modelled = "nothing fits by the cost model" if found.value is None else f"{amount(quantity, found.value)}, modelled"
    return f"{amount(quantity, found.answered)}, as compiled; {modelled}"


def _reasons(found: Boundary, quantity: str) -> Iterator[Text]:
    if found.next is not None:
        where = f"At {amount(quantity, found.next.value)}"
        step = f" ({found.step:,} further)" if found.step else ""
        yield Text(f"{where}{step} no strategy fits: {found.binds.says}", style="yellow")
    else:
        yield Text(f"No further: {found.binds.says}", style="yellow")
    if found.rule is not None:
        yield Text(f"rule {found.rule.name}: {found.rule.says}", style="yellow")
    if found.confirmed is not None:
        words = "agrees: the answer fits, one step further does not" if found.confirmed else "does not agree with this boundary"
        yield Text(f"the target's compiler {words}", style="green" if found.confirmed else "yellow")
    if found.compiled is not None:
        yield _compiled(found.compiled, quantity)


def _compiled(found: CompiledBoundary, quantity: str) -> Text:
    """The boundary of the answer's strategy as the compiler has it."""
    which = "this strategy" if found.candidate is None else found.candidate.strategy.label
    if quantity == "devices" and found.value is not None:
        return Text(f"as compiled {which} fits on {amount(quantity, found.value)} ({found.compiles} compiles)", style="bold")
    if found.value is None or found.next_value is None:
        side = "fits at" if found.next_value is None else "does not fit at"
        return Text(f"as compiled {which} {side} every value tried ({found.compiles} compiles)", style="yellow")
    between = "one step further" if found.exact else f"at {amount(quantity, found.next_value)}"
    words = f"as compiled {which} fits up to {amount(quantity, found.value)}, and not {between} ({found.compiles} compiles)"
    return Text(words, style="bold")


def _changes(found: Boundary, quantity: str) -> FittedTable:
    """Changes that would make the next step fit: changes of the job by the cost of a token, then more hardware."""
    table = titled("Changes that would help, cheapest first")
    table.add_column("change")
    table.add_column(f"then {quantity.replace('_', ' ')}", justify="right", no_wrap=True)
    for name in ("step", "device-s a M tokens"):
        table.add_column(name, justify="right", no_wrap=True, style="dim")
    for moved in found.changes[:SHOWN_CHANGES]:
        value = "-" if moved.value is None else _value(quantity, moved.value)
        cost = f"{moved.change.device_s_per_token * 1e6:,.0f}"
        table.add_row(moved.change.says, value, format_seconds(moved.change.step_s), cost)
    return table


def _points(result: WhatIf) -> FittedTable:
    table = titled("Best strategy at each point")
    table.gap = 1
    names = [name for name in result.points[0].varied if not _twin(name, result.points[0])]
    for name in names:
        table.add_column(_HEADINGS.get(name, name), justify="right", no_wrap=True)
    if result.question != "sweep":
        table.add_column(result.question, justify="right", no_wrap=True, style="bold")
    sampled = any(point.candidate and point.candidate.strategy.sampling for point in result.points)
    for name in ("mesh", *(("parameters", "cache") if sampled else ("scheme", "remat"))):
        table.add_column(name, no_wrap=True)
    offloads = any(point.candidate and host_bytes(point.candidate) for point in result.points)
    for name in ("step", "tokens/s", "GiB"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("host" if offloads else "", no_wrap=True)
    table.add_column("binds")
    most = max((c.best.tokens_per_s for c in (point.candidate for point in result.points) if c and c.best.fits), default=1.0)
    for point in result.points:
        cells = _cells(point, names, result=result, most=most)
        if offloads and point.candidate and point.candidate.best.fits:  # the host's memory takes the place of the bar
            cells[-2] = f"{host_bytes(point.candidate) / GIB:.1f}"
        table.add_row(*cells, style=None if _fits(point.candidate) else "dim")
    return table


def _twin(name: str, point: Point) -> bool:
    """Return whether a JSON name with units repeats a name of ``--vary``; people need one of the two."""
    return name in {"hbm_bytes", "seq_len", "global_batch", "bandwidth_oneway_bytes_per_s", "precision"} or (
        "_" in name and name.replace("_", "-") in point.varied
    )


def _fits(candidate: Candidate | None) -> bool:
    return candidate is not None and candidate.best.fits


def _cells(point: Point, names: list[str], *, result: WhatIf, most: float) -> list[str | Text]:
    cells: list[str | Text] = [_value(name, point.varied[name]) for name in names]
    if result.question != "sweep":
        value = point.boundary.value if point.boundary else None
        cells.append("none" if value is None else _value(QUANTITY[result.question], value))
    if point.candidate is None:
        return [*cells, "-", "-", "-", "-", "-", "-", "", point.binds.name]
    strategy, best = point.candidate.strategy, point.candidate.best
    bar = Text(
        "█" * max(1, round(BAR_WIDTH * best.tokens_per_s / most)) if best.fits else "over", style="cyan" if best.fits else "red"
    )
    rollout, scheme = strategy.sampling, strategy.scheme if strategy.mesh.context > 1 else "-"
    knobs = (rollout.parameters, rollout.cache) if rollout else (scheme, strategy.remat_label)
    shown = Performance.of(point.candidate)
    figures = [shown.step, shown.tokens_per_s, f"{best.memory_bytes / GIB:.1f}"]
    return [
        *cells,
        mesh_label(strategy),
        *knobs,
        *figures,
        bar,
        point.binds.label,
    ]


def _value(name: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    if name in _BYTES:
        return format_bytes(value).replace(".0 ", " ")
    if name in {"seq", "seq_len"}:
        return format_tokens(int(value))
    return f"{value / 1e9:g}" if name == "bandwidth" else f"{value:,}"
