"""``--from-TRAINER FILE``: options of ``lcplan estimate`` that come from a trainer's configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from lcplan.formats.errors import BadInputError
from lcplan.spec.rollout_workloads import DEFAULT_KIND, WORKLOAD_TYPES
from lcplan.strategy import KNOBS
from planner.cli.groups import grouped
from planner.imports.read import read_file
from planner.trainers import trainer
from planner.trainers.common.imported import Imported
from planner.trainers.registry import formats

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = formats()
"""The formats that are read, by trainer."""
_NEEDED = ("model", "seq", "hw")


def from_options(command: F) -> F:
    """An option for each format; model, sequence and hardware may then come from the file."""
    options = [
        click.option(f"--from-{name}", metavar=form.metavar, help=f"Read {form.words}.") for name, form in FORMATS.items()
    ]
    command = grouped("files", options)(command)
    for parameter in command.__click_params__:  # type: ignore[attr-defined]
        if parameter.name in _NEEDED:
            parameter.required = False
    return command


def given_file(options: dict[str, Any]) -> str | None:
    """The file of a ``--from`` option, if one is given."""
    return next((options[f"from_{name}"] for name in FORMATS if options.get(f"from_{name}") is not None), None)


def without_file(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options without those of ``from_options``."""
    files = {f"from_{name}" for name in FORMATS}
    return {name: value for name, value in options.items() if name not in files}


def file_only(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options without filters of a strategy, which are those of a search and not of the file."""
    return {name: None if name in KNOBS or name in ("mesh", "trainer") else value for name, value in options.items()}


def with_request(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the model, sequence, batch, hardware and devices of a ``--from`` file.

    Raises
    ------
    BadInputError
        As ``with_file``.
    """
    if given_file(options) is None:
        return with_file(options)[0]
    merged, _ = with_file(file_only(options))
    taken = {name: merged[name] for name in ("model", "seq", "hw", "devices", "global_batch")}
    return {**without_file(options), **taken}


def with_file(options: dict[str, Any], *, free: tuple[str, ...] = ()) -> tuple[dict[str, Any], Imported | None]:
    """The options completed from a ``--from`` file, and that file as it was read; without the options in ``free``.

    Raises
    ------
    BadInputError
        Two files, an option that contradicts the file, or a needed value that neither gives.
    """
    sampled = "seq" not in WORKLOAD_TYPES[options.get("kind", DEFAULT_KIND)].facts.needs
    files = {name: options.pop(f"from_{name}") for name in FORMATS}
    given = {name: file for name, file in files.items() if file is not None}
    needed = tuple(name for name in (("model", "hw") if sampled else _NEEDED) if name not in free)
    if not given:
        _complete(options, "", needed=needed)
        return options, None
    if sampled:
        raise BadInputError(f"--from-{next(iter(given))} describes a train step; leave --workload {options['kind']} out")
    if len(given) > 1:
        raise BadInputError(f"--from-{' and --from-'.join(given)}: give one of them")
    name, file = next(iter(given.items()))
    imported = read_file(name, file, devices=options["devices"], hardware=options["hw"])
    lacking = [
        f"{reason}, or give --{key.replace('_', '-')}"
        for key, reason in imported.unresolved.items()
        if options[key] is None and key not in free
    ]
    if lacking:
        raise BadInputError(lacking)
    imported = replace(imported, defaults={key: value for key, value in imported.defaults.items() if key not in free})
    said = {key: value for key, value in imported.options.items() if key not in free}
    _agree(options, said, file=file)
    merged, imported = _filled(options | said, imported, options)
    lacks = "".join(f"; {note}" for note in imported.notes if "give --model" in note)
    _complete(merged, f" (nor does {file} say it{lacks})", needed=needed)
    torch = imported.program.runtime == "torch"
    if (torch or trainer(name).whole_loss) and merged["loss_chunk_tokens"] is None:
        if merged["seq"] is not None:
            merged["loss_chunk_tokens"] = (max(1, merged["seq"] // _context(merged["mesh"])),)
        imported = replace(imported, program=imported.program.model_copy(update={"loss": "whole"}))
    return merged, imported


def _filled(merged: dict[str, Any], imported: Imported, options: dict[str, Any]) -> tuple[dict[str, Any], Imported]:
    """Fill in the trainer's defaults for values that neither the file nor the command line gives, with a note."""
    taken = {key: value for key, value in imported.defaults.items() if merged.get(key) is None}
    if options["seq"] is not None:
        taken.pop("loss_chunk_tokens", None)  # that of the trainer's own sequence
    words = ", ".join(words for _, words in taken.values() if words)
    notes = (*imported.notes, f"not given, so the default of {imported.trainer}: {words}") if words else imported.notes
    if "model" in taken:
        notes = tuple(note for note in notes if "give --model" not in note)
    return merged | {key: value for key, (value, _) in taken.items()}, replace(imported, notes=notes)


def _agree(options: dict[str, Any], said: dict[str, Any], *, file: str) -> None:
    clashes = [key for key, value in said.items() if options.get(key) is not None and options[key] != value]
    if "model" in clashes:  # a name on the command line is the user's word for what the file spells out
        clashes.remove("model")
        said.pop("model")
    if clashes:
        raise BadInputError(
            [
                f"--{key.replace('_', '-')} {_text(options[key])}: {file} has {_text(said[key])}; leave the option out"
                for key in clashes
            ]
        )


def _text(value: Any) -> str:
    return ",".join(str(part) for part in value) if isinstance(value, tuple) else str(value)


def _complete(options: dict[str, Any], besides: str, *, needed: tuple[str, ...] = _NEEDED) -> None:
    missing = [f"--{key}" for key in needed if options[key] is None]
    if missing:
        raise click.UsageError(f"Missing option {', '.join(repr(name) for name in missing)}{besides}.")


def _context(mesh: str) -> int:
    return next(int(part.partition("=")[2]) for part in mesh.split(",") if part.startswith("context="))
