"""``lcplan catalog``: the known models and hardware, with the source of every figure."""

from __future__ import annotations

from typing import Any

import click
import yaml
from rich.text import Text

from lcplan import catalog
from lcplan.catalog.tpu import slice_names
from lcplan.formats.units import format_bytes, format_count, format_tokens
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from planner.cli.hardware_words import note_words
from planner.cli.options import output_format
from planner.cli.output import print_csv, print_json, print_view
from planner.report.terminal.tables import FittedTable, plain


@click.command("catalog", short_help="List or show models and hardware.")
@click.argument("kind", type=click.Choice(["models", "hardware"]))
@click.argument("name", required=False)
@output_format
def command(kind: str, name: str | None, output: str) -> int:
    """List the MODELS or HARDWARE that lcplan knows, or show one with the source of every figure.

    NAME may be a file as well: a config.json or a YAML spec is read, checked and shown as lcplan understands it.
    """
    if name is not None:
        if kind == "hardware":
            note_words(name)
        spec = catalog.model(name) if kind == "models" else catalog.hardware(name)
        _show_one(spec, output)
    else:
        _show_all(kind, output)
    return 0


def _show_one(spec: ModelSpec | HardwareSpec, output: str) -> None:
    data = spec.model_dump(mode="json", exclude_none=True)
    if isinstance(spec, ModelSpec):
        data = {"parameters": spec.parameters, "active_parameters": spec.active_parameters, **data}
    else:
        data = {"devices": spec.devices, "usable_bytes": spec.usable_bytes, **data}
    if output == "json":
        print_json({"schema_version": 1, "spec": data})
    elif output == "csv":
        print_csv([{key: value for key, value in data.items() if not isinstance(value, dict | list)}])
    else:
        print_view(Text(yaml.safe_dump(data, sort_keys=False, width=100, allow_unicode=True).rstrip()))


def _show_all(kind: str, output: str) -> None:
    rows = (
        [_model_row(n) for n in catalog.model_names()]
        if kind == "models"
        else [_hardware_row(n) for n in catalog.hardware_names()]
    )
    if output == "json":
        print_json({"schema_version": 1, kind: rows})
    elif output == "csv":
        print_csv(rows)
    else:
        print_view(_model_table(rows) if kind == "models" else _hardware_table(rows))


def _model_row(name: str) -> dict[str, Any]:
    spec = catalog.model(name)
    return {
        "name": spec.name,
        "parameters": spec.parameters,
        "layers": spec.layers,
        "d_model": spec.d_model,
        "heads": spec.heads,
        "kv_heads": spec.kv_heads,
        "max_position": spec.max_position,
    }


def _hardware_row(name: str) -> dict[str, Any]:
    """A family of TPU slices (``tpu-v5p-N``) is one row: that of its largest slice."""
    family = name.removesuffix("-N")
    spec = catalog.hardware(slice_names(family)[-1] if name.endswith("-N") else name)
    return {
        "name": name,
        "devices": spec.devices,
        "device": spec.device.name,
        "hbm_bytes": int(spec.device.hbm_bytes.value),
        "usable_bytes": spec.usable_bytes,
        "peak_flop_per_s": spec.device.peak_flop_per_s.value,
        "domain_size": spec.domain_size,
    }


def _model_table(rows: list[dict[str, Any]]) -> FittedTable:
    table = plain("model", figures=("parameters", "layers", "D", "heads", "KV", "positions"))
    for row in rows:
        positions = format_tokens(row["max_position"]) if row["max_position"] else "-"
        shape = [str(row[key]) for key in ("layers", "d_model", "heads", "kv_heads")]
        table.add_row(row["name"], format_count(row["parameters"]), *shape, positions)
    return table


def _hardware_table(rows: list[dict[str, Any]]) -> FittedTable:
    table = plain("hardware", figures=("devices", "memory", "usable", "PFLOP/s", "domain"))
    for row in rows:
        memory, usable = format_bytes(row["hbm_bytes"]), format_bytes(row["usable_bytes"])
        peak = f"{row['peak_flop_per_s'] / 1e15:.3g}"
        many = row["name"].endswith("-N")
        counts = ["by N" if many else str(row[key]) for key in ("devices", "domain_size")]
        table.add_row(row["name"], counts[0], memory, usable, peak, counts[1])
    table.caption = "xN behind a name is N domains (dgx-h100x4: 32 GPUs); N of a TPU is that of its accelerator type (v5p-64)"
    return table
