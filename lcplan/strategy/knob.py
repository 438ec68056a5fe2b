"""Knob: the record of one knob, which the field that holds its value carries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from pydantic import AliasChoices
from pydantic.fields import FieldInfo

Value = str | int
UNBOUNDED = 2**40


def always(_: Any) -> bool:
    """Mark a knob that means something in every strategy."""
    return True


@dataclass(frozen=True)
class Knob:
    """The facts of one knob. The facts from ``name`` on come from the field that carries the record."""

    help: str
    """One line, without the values and the default."""
    workloads: tuple[str, ...] = ("train", "rl")
    """Kinds of workload that have the knob."""
    grid: tuple[Value, ...] = ()
    """Values that a search tries where no filter names any; empty: the default."""
    grid_on: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """The same for one kind of device, where that differs."""
    follows: str = ""
    """The rule that gives the values of a search in place of ``grid``; empty: the grid holds for every request."""
    axis: str = ""
    """The mesh axis that has to be above one for the knob to mean anything."""
    active: Callable[[Any], bool] = always
    """Whether a strategy on such a mesh is another program with another value of the knob."""
    active_when: str = ""
    """The same in words, as ``remat offloads``."""
    unit: str = ""
    """Unit of the value."""
    shown: bool | None = None
    """Whether the label of a strategy names it; None: where it differs from the default."""
    bare: bool = False
    """Whether labels leave its name out, since the value names itself."""
    needs_key: bool = False
    """Whether a trainer runs the default unless its files have a key for the knob (``Trainer.keys``)."""
    tuner: tuple[Value, ...] = ()
    """Values that the tuner tries where they are possible; empty: it leaves the knob as it is."""
    spellings: Mapping[str, str] = field(default_factory=dict)
    """Other spellings of values, accepted wherever a value is."""
    name: str = ""
    default: Value = 0
    values: tuple[str, ...] = ()
    """All values of a knob of names; empty: a whole number."""
    least: int = 0
    most: int = UNBOUNDED
    aliases: tuple[str, ...] = ()
    """Earlier spellings, accepted wherever the name is: those of the field's ``validation_alias``."""

    @property
    def option(self) -> str:
        """The command line option: ``--loss-chunk-tokens``."""
        return f"--{self.word}"

    @property
    def word(self) -> str:
        """The name as the command line and ``--vary`` spell it: ``loss-chunk-tokens``."""
        return self.name.replace("_", "-")

    def value(self, text: str) -> str:
        """Return the value that a spelling means; the text itself if it is not an alias."""
        return self.spellings.get(text, text)

    @property
    def is_number(self) -> bool:
        """Whether its values are whole numbers, which have an order."""
        return not self.values

    def grid_values(self, kind: str) -> tuple[Value, ...]:
        """Values that a search on this kind of device tries where neither a filter nor the mesh decides."""
        return self.grid_on.get(kind) or self.grid or (self.default,)

    def is_active(self, strategy: Any) -> bool:
        """Whether another value makes another program of the strategy."""
        return (not self.axis or getattr(strategy.mesh, self.axis) > 1) and self.active(strategy)

    def stated(self, value: Value) -> str:
        """A value with its unit: ``50%``, ``1024 tokens``."""
        return f"{value}{'' if self.unit in ('', '%') else ' '}{self.unit}"

    @property
    def condition(self) -> str:
        """When it means something, in words; empty: always."""
        return " and ".join(part for part in (f"{self.axis} is above 1" if self.axis else "", self.active_when) if part)

    @property
    def default_words(self) -> str:
        """The value or rule that holds where the knob is not given, as help and pages print it."""
        if self.follows:
            return self.follows
        several = [value for value in self.grid_values("") if value != self.default]
        if several:
            return "all" if len(several) + 1 == len(self.values) else " ".join(map(str, self.grid_values("")))
        other = [f"{values[0]} on {kind}" for kind, values in self.grid_on.items()]
        return ", ".join((str(self.default), *other))


def knobs_of(fields: Mapping[str, FieldInfo]) -> dict[str, Knob]:
    """Collect the records that the fields of a model carry, each completed from its field."""
    found = {}
    for name, info in fields.items():
        for record in (item for item in info.metadata if isinstance(item, Knob)):
            least, most = _bounds(info.metadata)
            facts = {"name": name, "default": info.default, "values": get_args(info.annotation)}
            found[name] = replace(record, **facts, least=least, most=most, aliases=_aliases(info))
    return found


def _aliases(info: FieldInfo) -> tuple[str, ...]:
    spellings = info.validation_alias
    return tuple(str(one) for one in spellings.choices[1:]) if isinstance(spellings, AliasChoices) else ()


def _bounds(metadata: Iterable[Any]) -> tuple[int, int]:
    """The smallest and the largest whole number that the constraints of a field let in."""
    stated = {key: getattr(one, key) for one in metadata for key in ("ge", "gt", "le") if getattr(one, key, None) is not None}
    return stated.get("ge", stated.get("gt", -1) + 1), stated.get("le", UNBOUNDED)
