"""A request as a file: the options of ``lcplan search`` in YAML, or the ``request.json`` of a run's folder, given back.

Its values are the defaults of the command line: an option that is given there has precedence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from lcplan.formats.textfile import read_json, read_yaml
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.strategy import KNOBS

if TYPE_CHECKING:  # loaded with a file only: every command has these options
    from planner.request.request import SearchRequest

_FILE, _SET = "lcplan.request_file", "lcplan.set"


class NameOrSpec(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """A name or a path; a spec that a request file holds goes through as it is."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text, or the spec."""
        return value if isinstance(value, ModelSpec | HardwareSpec) else str(value)


def take_file(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    """Use the values of a request file for options that are left out."""
    if value is not None:
        ctx.meta[_FILE] = _given(Path(value), ctx.command)
        _apply(ctx)


def take_set(ctx: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> None:
    """Use ``KEY=VALUE`` for options that are left out, in place of the file's values."""
    if values:
        pairs = [(text.partition("=")[0].strip(), text.partition("=")) for text in values]
        wrong = [f"--set {text!r:.60}: write KEY=VALUE" for text in values if "=" not in text]
        if wrong:
            raise BadInputError(wrong)
        ctx.meta[_SET] = _named({name: parts[2] for name, parts in pairs}, ctx.command, "--set")
        _apply(ctx)


def _apply(ctx: click.Context) -> None:
    ctx.default_map = {**ctx.meta.get(_FILE, {}), **ctx.meta.get(_SET, {})}


def _given(path: Path, command: click.Command) -> dict[str, Any]:
    """Return the file's values by parameter.

    Raises
    ------
    BadInputError
        It is no request, or it has keys that are no options.
    """
    document = read_json(path) if path.suffix == ".json" else read_yaml(path)
    if not isinstance(document, dict):
        raise BadInputError(f"{path}: not a request; write one option per line, as in `seq: 256k`")
    if "step" in document and "space" not in document and "mesh" in document and "hardware" in document:
        raise BadInputError(f"{path}: the request of a step file; give the step again with --step {document['step']}")
    if isinstance(document.get("workload"), dict):
        from planner.run.run_read import stored_request

        return _words_of(stored_request(document, path))
    return _named(document, command, str(path))


def _named(values: Mapping[Any, Any], command: click.Command, source: str) -> dict[str, Any]:
    known = {
        name.removeprefix("--").replace("-", "_"): parameter
        for parameter in command.params
        for name in parameter.opts
        if name.startswith("--") and not parameter.is_eager
    }
    unknown = [str(key) for key in values if str(key).replace("-", "_") not in known]
    if unknown:
        names = [name.replace("_", "-") for name in known]
        raise BadInputError([f"{source}: no option {key!r:.60}{hint(key, names)}" for key in unknown])
    found: dict[str, Any] = {}
    for key, value in values.items():
        parameter = known[str(key).replace("-", "_")]
        text = _text(value, f"{source}: {key}")
        found[str(parameter.name)] = [text] if parameter.multiple else text
    return found


def _text(value: Any, where: str) -> Any:
    """Return a value as it is typed: lists with commas, sizes of a mesh with ``=``."""
    if isinstance(value, bool | int | float | str):
        return value if isinstance(value, bool) else str(value)
    if isinstance(value, list) and value and all(isinstance(one, int | float | str) for one in value):
        return ",".join(str(one) for one in value)
    if isinstance(value, dict) and value:
        return ",".join(f"{name}={_text(one, where)}" for name, one in value.items())
    raise BadInputError(f"{where}: {value!r:.60} is no value of an option")


def _words_of(request: SearchRequest) -> dict[str, Any]:
    """Return the options that ask ``request``."""
    from planner.request.filters import sizes_text

    hardware, filters = request.hardware, request.filters
    words: dict[str, Any] = {"model": _name(request.model), "hw": _name(hardware), "kind": request.workload.kind}
    words |= dict(_workload(request))
    words |= {"objective": request.objective}
    if request.budget_bytes != hardware.usable_bytes:
        words["budget"] = str(request.budget_bytes)
    if request.devices is not None:
        words["devices"] = str(request.devices)
    if request.trainer is not None:
        words |= {"trainer": request.trainer} | ({"for_jax": request.trainer_jax} if request.trainer_jax else {})
    if filters.mesh:
        words["mesh"] = [sizes_text(filters.mesh)]
    if filters.rollout_mesh:
        words["rollout_mesh"] = sizes_text(filters.rollout_mesh)
    given = {name: getattr(filters, name) for name in KNOBS if getattr(filters, name)}
    return words | {name: [",".join(map(str, values))] for name, values in given.items()}


def _workload(request: SearchRequest) -> Iterator[tuple[str, Any]]:
    """Yield the options of the workload that are given; a default batch stays a default."""
    workload = request.workload
    dumped = workload.model_dump(mode="json")
    for name in (*workload.facts.needs, *workload.facts.options):
        value = dumped.get("seq_len" if name == "seq" else name)
        if name == "global_batch" and not workload.global_batch_given:
            continue
        if value is not None:
            yield name, str(value)
    if dumped.get("donate") is False:
        yield "no_donate", True


def _name(spec: ModelSpec | HardwareSpec) -> Any:
    """Return the catalogue's name for a spec that is the catalogue's, else the spec."""
    from lcplan import catalog

    find: Any = catalog.model if isinstance(spec, ModelSpec) else catalog.hardware
    try:
        return spec.name if find(spec.name) == spec else spec
    except BadInputError:
        return spec
