"""The request of a search over a step of one's own."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from lcplan.formats.suggest import hint
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.own_step import KnobValue, StepSpace
from planner.measure.step_file.file import StepFile
from planner.own_step.declared import read_declaration
from planner.own_step.expressions import Expression
from planner.request.filters import AxisFilter, parse_sizes
from planner.request.request import Objective


class StepRequest(Frozen):
    """A question about a step file. Its content is no part of the question: an edited file asks the same question again."""

    step: str
    """Path of the step file."""
    space: StepSpace
    hardware: HardwareSpec
    devices: Annotated[int, Field(gt=0)]
    workload: dict[str, int]
    budget_bytes: Annotated[int, Field(gt=0)]
    objective: Objective = "tokens_per_s"
    mesh: dict[str, AxisFilter] = {}
    """Sizes of axes that are let in; others are free."""
    knobs: dict[str, tuple[KnobValue, ...]] = {}
    """Values of knobs that are let in; of others all that are declared."""

    @property
    def identity(self) -> dict[str, Any]:
        """The facts that make two requests the same question."""
        return self.model_dump(mode="json", exclude={"space"})

    @property
    def slug(self) -> str:
        """A folder name: a short description of the request, and eight digits of its hash."""
        digest = hashlib.sha256(self.model_dump_json(exclude={"space"}).encode()).hexdigest()[:8]
        parts = [Path(self.step).stem, self.hardware.name, f"{self.devices}devices", digest]
        return "-".join("".join(c if c.isalnum() or c in ".-" else "_" for c in part) for part in parts)

    @property
    def file(self) -> StepFile:
        """The step file as it is now."""
        return StepFile.of(Path(self.step))

    def to_json(self) -> dict[str, Any]:
        """Return the request as scripts read it."""
        shown = self.model_dump(mode="json", exclude={"hardware"})
        return shown | {"hardware": {"devices": self.hardware.devices, **self.hardware.model_dump(mode="json")}}


class StepOptions(Frozen):
    """The values of the command line that make such a request."""

    step: str
    hw: str
    devices: int | None = None
    seq: int | None = None
    global_batch: int | None = None
    budget: int | None = None
    mesh: str | None = None
    knob: tuple[str, ...] = ()
    objective: Objective = "tokens_per_s"


def build_step_request(options: StepOptions) -> StepRequest:
    """Build the request that the options ask for.

    Raises
    ------
    BadInputError
        A file without a declaration, an unknown axis, knob, value or hardware, or a number that is missing.
    """
    from lcplan import catalog

    space = read_declaration(Path(options.step))
    hardware = catalog.hardware(options.hw)
    problems: list[str] = []
    devices = options.devices or hardware.devices
    if devices > hardware.devices:
        problems.append(
            f"devices={devices} is more than the {hardware.devices} of {hardware.name}; ask for at most {hardware.devices},"
            f" or for more domains: --hw {hardware.enlarged_for(devices)}"
        )
    mesh: dict[str, AxisFilter] = {}
    try:
        mesh = parse_sizes(options.mesh, "--mesh", tuple(space.axes)) if options.mesh else {}
    except BadInputError as error:
        problems += error.problems
    knobs = _knobs(options.knob, space, problems)
    given = {"seq_len": options.seq, "global_batch": options.global_batch}
    workload = space.workload | {name: value for name, value in given.items() if value is not None}
    problems += _expressions(options.step, space, workload)
    if problems:
        raise BadInputError(problems)
    return StepRequest(
        step=options.step,
        space=space,
        hardware=hardware,
        devices=devices,
        workload=workload,
        budget_bytes=options.budget or hardware.usable_bytes,
        objective=options.objective,
        mesh=mesh,
        knobs=knobs,
    )


def _knobs(texts: tuple[str, ...], space: StepSpace, problems: list[str]) -> dict[str, tuple[KnobValue, ...]]:
    """Values by knob from ``remat=full,none``; a value is one of the declared ones, as it is written."""
    found: dict[str, tuple[KnobValue, ...]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip()
        if not equals or name not in space.knobs:
            known = tuple(space.knobs)
            problems.append(
                f"--knob {text!r:.60}: no knob {name!r:.40}{hint(name, known)}"
                if known
                else f"--knob {text!r:.60}: LCPLAN has no knobs"
            )
            continue
        declared = {str(value): value for value in space.knobs[name]}
        words = [word.strip() for word in values.split(",")]
        problems += [
            f"--knob {name}: no value {word!r:.40}{hint(word, tuple(declared))}" for word in words if word not in declared
        ]
        found[name] = (*found.get(name, ()), *(declared[word] for word in words if word in declared))
    return found


def _expressions(step: str, space: StepSpace, workload: dict[str, int]) -> list[str]:
    """Problems of the rules and of the tokens: their syntax, and names that have no value."""
    texts = {f"rule {text!r:.60}": text for text in space.rules}
    if isinstance(space.tokens, str):
        texts["tokens"] = space.tokens
    names = dict.fromkeys([*space.axes, *space.knobs, *workload, "devices"])
    problems = []
    for what, text in texts.items():
        try:
            Expression(text, where=f"{step}: LCPLAN: {what}").check_names(names)
        except BadInputError as error:
            problems += [_missing(problem, workload) for problem in error.problems]
    return problems


def _missing(problem: str, workload: dict[str, int]) -> str:
    for name, option in {"seq_len": "--seq", "global_batch": "--global-batch"}.items():
        if f"names {name!r}" in problem and name not in workload:
            return f"{problem.split(';', maxsplit=1)[0]}; give {option}"
    return problem
