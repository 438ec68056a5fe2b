"""Options that several commands share, and how their text becomes a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, TypeVar, get_args

import click
from click.shell_completion import CompletionItem

from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from lcplan.formats.text import whole_in
from lcplan.formats.units import parse_bytes, parse_tokens
from lcplan.spec.rollout_workloads import OldLogProbs, WorkloadKind
from lcplan.strategy import AXES, KNOBS, Knob, KvDtype
from planner.cli.groups import grouped
from planner.cli.hardware_words import noted
from planner.cli.request_file import NameOrSpec

HW_HELP = "Hardware: gb200-nvl72, dgx-h100x4, mi300x, 8xh100, tpu-v5p-64, a YAML spec."

F = TypeVar("F", bound=Callable[..., Any])


def _completes(names: Literal["model_names", "hardware_names"]) -> Callable[[Any, Any, str], list[str]]:
    """Return the completion of a name of the catalogue, which loads when the shell asks."""

    def complete(_context: Any, _parameter: Any, incomplete: str) -> list[str]:
        from lcplan import catalog

        return [name for name in getattr(catalog, names)() if name.startswith(incomplete)]

    return complete


class Tokens(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """``262144``, ``256k`` or ``1m``."""

    name = "tokens"

    def __init__(self, option: str = "--seq") -> None:
        self.option = option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Tokens as an integer."""
        return value if isinstance(value, int) else parse_tokens(value, self.option)


class Price(click.FloatRange):
    """Dollars: finite and not negative."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Dollars as a float."""
        found = float(super().convert(value, param, ctx))
        if not isfinite(found):
            self.fail(f"{found} is no price; give a finite number of dollars, such as 2.5", param, ctx)
        return found


PRICE = Price(min=0)


class Bytes(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """``80GiB``, ``80GB`` or plain bytes."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes as an integer."""
        return value if isinstance(value, int) else parse_bytes(value, f"--{param.name}" if param else "size")


class Several(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """One or more of a set of names, separated by commas."""

    def __init__(self, known: tuple[str, ...], name: str, spellings: Mapping[str, str] | None = None) -> None:
        self.known, self.spellings = known, spellings or {}
        self.name = name

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete the last of the names."""
        before, comma, last = incomplete.rpartition(",")
        return [CompletionItem(f"{before}{comma}{name}") for name in self.known if name.startswith(last)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The names, each checked."""
        if isinstance(value, tuple):
            return value
        words = (part.strip() for part in str(value).split(","))
        names = tuple(self.spellings.get(word, word) for word in words)
        unknown = [name for name in names if name not in self.known]
        if unknown:
            option = f"--{param.name.replace('_', '-')}" if param and param.name else self.name
            raise BadInputError([f"{option}: unknown value {name!r}{hint(name, self.known)}" for name in unknown])
        return names


class Counts(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """One or more whole numbers from ``least`` to ``most``, separated by commas."""

    name = "n,n,.."

    def __init__(self, least: int = 1, most: int = 2**31 - 1) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """The numbers."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        numbers = [whole_in(part) for part in parts]
        wrong = [part for part, n in zip(parts, numbers, strict=True) if n is None or not self._least <= n <= self._most]
        if wrong:
            option = f"--{param.name.replace('_', '-')}" if param and param.name else "option"
            kind = "whole number above zero" if self._least else "whole number"
            kind += f", at most {self._most}" if self._most < 2**31 - 1 else ""
            raise BadInputError([f"{option}: {part[:60]!r} is not a {kind}" for part in wrong])
        return tuple(number for number in numbers if number is not None)


document_option = click.option(
    "--document-len",
    type=Tokens("--document-len"),
    metavar="TOKENS",
    help="Length of the documents that sequences are packed with. [default: a sequence is one]",
)

hw_option = click.option(
    "--hw",
    type=NameOrSpec(),
    required=True,
    metavar="NAME|FILE",
    callback=noted,
    shell_complete=_completes("hardware_names"),
    help=HW_HELP,
)
toolchain_option = click.option("--toolchain", metavar="PYTHON", help="Python whose jax compiles. [default: this one]")
price_option = click.option("--price", type=PRICE, metavar="USD", help="Dollars per device-hour: adds cost of 1 B tokens.")


@dataclass(frozen=True)
class RequestWords:
    """The differences between commands in the options of a request: the option of the hardware, and help texts."""

    hw: Callable[[Any], Any] = hw_option
    needs_model: bool = True
    seq: str = "Sequence length of a train step: 262144, 256k or 1m."
    devices: str = "Exactly this many devices. [default: every count]"
    batch_default: str = "16k tokens per device, at least 4 Mi; on cpu-host one sequence per device"
    budget_default: str = "the hardware's usable memory"


def _request(words: RequestWords) -> list[Callable[[Any], Any]]:
    return [
        click.option(
            "--model",
            type=NameOrSpec(),
            required=words.needs_model,
            metavar="NAME|FILE",
            shell_complete=_completes("model_names"),
            help="Catalogue name, config.json (or its folder), or YAML spec.",
        ),
        click.option("--seq", type=Tokens(), metavar="TOKENS", help=words.seq),
        words.hw,
        click.option("--devices", type=click.IntRange(min=1), help=words.devices),
        click.option(
            "--global-batch",
            type=click.IntRange(min=1),
            metavar="SEQS",
            help=f"Sequences per step. [default: {words.batch_default}]",
        ),
        document_option,
        click.option("--budget", type=Bytes(), metavar="BYTES", help=f"Memory per device. [default: {words.budget_default}]"),
    ]


_WORKLOAD = [
    click.option(
        "--workload",
        "kind",
        type=click.Choice(get_args(WorkloadKind)),
        default="train",
        show_default=True,
        help="A train step, a rollout, or an iteration of reinforcement learning.",
    ),
    click.option("--prompt", type=Tokens("--prompt"), metavar="TOKENS", help="sample, rl: prompt of each sequence."),
    click.option("--generate", type=Tokens("--generate"), metavar="TOKENS", help="sample, rl: tokens after it."),
    click.option("--batch", type=click.IntRange(min=1), metavar="SEQS", help="sample, rl: sequences of a rollout."),
    click.option("--kv-dtype", type=click.Choice(get_args(KvDtype)), help="sample, rl: the cache's dtype. [default: bf16]"),
    click.option(
        "--temperature",
        type=click.FloatRange(0, 100),
        metavar="T",
        help="sample, rl: divides the logits before tokens are drawn; 0 takes the most likely. [default: 1]",
    ),
    click.option("--no-donate", is_flag=True, help="sample, rl: a decode step makes another cache."),
    click.option(
        "--old-log-probs",
        type=click.Choice(get_args(OldLogProbs)),
        help="rl: those of the rollout, or recomputed by a forward pass. [default: rollout]",
    ),
    click.option(
        "--kl-coefficient",
        type=click.FloatRange(min=0, max=100),
        metavar="WEIGHT",
        help="rl: weight of the KL divergence to a reference model. [default: 0, no reference model]",
    ),
    click.option(
        "--rollout-mesh",
        metavar="AXIS=SIZES,..",
        help="rl: axis sizes of the rollout, over the same devices. [default: every mesh; in estimate the shards of --mesh]",
    ),
]

mesh_option = click.option(
    "--mesh", metavar="AXIS=SIZES,..", help=f"Axis sizes: context=8..32,tensor=1,2. Axes: {' '.join(AXES)}."
)


class KnobOption(click.Option):
    """The option of a knob, which its earlier spellings also reach; help shows the current name."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Register every spelling."""
        shown, earlier = self.opts, KNOBS[str(self.name)].aliases
        self.opts = [*shown, *(f"--{alias.replace('_', '-')}" for alias in earlier)]
        super().add_to_parser(parser, ctx)
        self.opts = shown


def _knob_option(knob: Knob) -> Callable[[F], F]:
    kind: click.ParamType[Any] = (
        Counts(knob.least, knob.most) if knob.is_number else Several(knob.values, knob.word, knob.spellings)
    )
    few = len(knob.values) <= 2
    metavar = ("N,.." if knob.is_number else ",".join(knob.values)) if few else "NAME,.."
    return click.option(knob.option, cls=KnobOption, type=kind, metavar=metavar, help=option_help(knob))


def option_help(knob: Knob) -> str:
    """One line: the workloads that have the knob where not all trainings do, its meaning, its values, its default."""
    before = "" if "train" in knob.workloads else f"{', '.join(knob.workloads)}: "
    values = f": {' '.join(knob.values)}" if len(knob.values) > 2 and not all(name in knob.help for name in knob.values) else ""
    return f"{before}{knob.help}{values}. [default: {knob.default_words}]"


output_format = click.option(
    "--format", "output", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True, help="Output format."
)


def request_options_with(words: RequestWords) -> Callable[[F], F]:
    """Add model, sequence, hardware, devices, batch and budget, with a command's own help texts."""

    return grouped("job", _request(words))


request_options = request_options_with(RequestWords())


def workload_options(command: F) -> F:
    """Add the options of the workload."""
    return grouped("workload", _WORKLOAD)(command)


def knob_options(command: F) -> F:
    """A filter for each axis and knob; given several times, all of its values count."""
    before = len(getattr(command, "__click_params__", ()))
    command = grouped("space", [mesh_option, *(_knob_option(knob) for knob in KNOBS.values())])(command)
    for parameter in command.__click_params__[before:]:  # type: ignore[attr-defined]
        parameter.multiple, parameter.callback = True, _together
    return command


def _together(ctx: click.Context, param: click.Parameter, values: tuple[Any, ...]) -> str | tuple[Any, ...] | None:
    """Join all mentions of a filter into one value; None if it was left out."""
    if all(isinstance(value, str) for value in values):
        return ",".join(values) if values else None
    return tuple(one for value in values for one in value)
