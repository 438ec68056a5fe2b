"""The tables of what was kept, in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lcplan.formats.units import format_bytes, format_seconds
from one_gpu.kept import Kept

Row = dict[str, Any]


def page(kept: Kept) -> str:
    """A heading and a table for each part that has rows; failed rows below it."""
    card = kept.card
    lines = [f"{card.device}, jax {card.jax}" + (", tiny shapes" if card.tiny else "")]
    for title, table in _TABLES.items():
        lines += [f"\n{title}\n", *table(kept)]
    failed = [
        f"* {part} {row['id']}: {row['error']}" for part, rows in kept.rows.items() for row in rows.values() if "error" in row
    ]
    return "\n".join([*lines, *(["\nFailed\n", *failed] if failed else [])])


def _good(kept: Kept, part: str) -> list[Row]:
    return [row for row in kept.rows.get(part, {}).values() if "error" not in row]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _chunks(kept: Kept) -> list[str]:
    rows = [
        [
            row["id"],
            row["kernel"],
            *(f"{row['errors'][name]:.1e} ({row['rounding'][name]:.1e})" for name in ("o", "dq", "dk", "dv")),
            "yes" if row["holds"] else "NO",
        ]
        for row in _good(kept, "chunks")
    ]
    return _table(["scheme", "kernel", "o (blockwise)", "dq", "dk", "dv", "holds"], rows)


def _steps(kept: Kept) -> list[str]:
    rows = [
        [
            row["id"],
            *(format_seconds(row[side]["step_s"]) for side in ("ours", "plain")),
            f"{row['step_ratio']:.3f}",
            *(_bytes(row[side]["peak_bytes"]) for side in ("ours", "plain")),
            _peak_ratio(row),
            f"{row['executable_ratio']:.3f}",
            f"{format_seconds(row['published']['step_s'])}, {format_bytes(row['published']['peak_bytes'])}",
        ]
        for row in _good(kept, "steps")
    ]
    head = ["row", "step", "plain", "ratio", "peak", "plain, at most", "ratio", "ratio by the executables", "the table's H100"]
    return _table(head, rows)


def _peak_ratio(row: Row) -> str:
    """Of lcplan's peak over the plain step's, which is not seen where it is no larger."""
    if row["ours"]["peak_bytes"] is None:
        return "-"
    return "1 or MORE" if row["peak_ratio"] is None else f"{row['peak_ratio']:.3f}"


def _rates(kept: Kept) -> list[str]:
    rows = []
    for row in _good(kept, "rates"):
        rows.append(["the whole calibration", format_seconds(row["seconds"]), "of three minutes that docs/calibrate.md allows"])
        device = row["overlay"]["device"]
        figures = device["rates"] | {name: value for name, value in device.items() if name != "rates"}
        rows += [
            [name, f"{one['value']:.4g}", one["source"].split(": ", 1)[-1]] for name, one in figures.items() if "value" in one
        ]
    return _table(["figure", "value", "samples"], rows)


def _slices(kept: Kept) -> list[str]:
    parts = [{row["id"]: row for row in _good(kept, part)} for part in ("slices", "whole", "memory")]
    rows = []
    for name in dict.fromkeys(one for part in parts for one in part):
        few, whole, memory = (part.get(name, {}) for part in parts)
        seconds = few.get("modelled_step_s"), few.get("step_s"), few.get("rank_s"), whole.get("step_s")
        rows.append(
            [name, few.get("label", "-"), *map(_seconds, seconds), _over_peak(memory, few, 0), _over_peak(memory, whole, 1)]
        )
    memories = [f"memory, {layers} layers: compiled and allowance, peak, ratio" for layers in ("few", "all")]
    return _table(["slice", "strategy", "law", "timed", "rank by few layers", "rank, all layers", *memories], rows)


def _over_peak(memory: Row, run: Row, depth: int) -> str:
    """What a compile without the card and the allowance say, and what the allocator saw."""
    need = memory["compiled_bytes"][depth] + memory["allowance_bytes"] if memory else None
    peak = run.get("peak_bytes")
    return f"{_bytes(need)}, {_bytes(peak)}, {f'{need / peak:.3f}' if need and peak else '-'}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else format_seconds(value)


def _bytes(value: int | None) -> str:
    return "-" if value is None else format_bytes(value)


_TABLES: dict[str, Callable[[Kept], list[str]]] = {
    "Chunk sequences: relative errors against fp32": _chunks,
    "Steps beside a plain one": _steps,
    "Rates": _rates,
    "Slices of a node's best strategies": _slices,
}
