"""The variables of a script: single values, and arrays whose keys are numbers or words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from planner.shell.words.unknown import Marks

Array = dict[str, str]


@dataclass
class Variables:
    """The variables that are assigned at one place of a script."""

    values: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    positional: list[str] | None = None
    """``$1`` and those after it; None: those of the script, which its caller gives."""

    def copy(self) -> Variables:
        """Return variables that change without these."""
        arrays = {name: dict(array) for name, array in self.arrays.items()}
        return Variables(dict(self.values), arrays, set(self.exported), None if self.positional is None else [*self.positional])

    def elements(self, name: str) -> list[str] | None:
        """The elements of an array, or the one value of a plain variable; None: not assigned."""
        if name in self.arrays:
            return list(self.arrays[name].values())
        return [self.values[name]] if name in self.values else None

    def get(self, name: str, key: str = "0") -> str | None:
        """One value; None: not assigned."""
        if name in self.arrays:
            array = self.arrays[name]
            return array.get(key, "") if key != "-1" else next(reversed(array.values()), "")
        return self.values.get(name) if key == "0" else ("" if name in self.values else None)

    def set(self, name: str, value: str, *, appends: bool = False) -> None:
        """Assign a value."""
        if name in self.arrays:
            before = self.arrays[name].get("0", "")
            self.arrays[name]["0"] = before + value if appends else value
            return
        self.values[name] = self.values.get(name, "") + value if appends else value

    def set_array(self, name: str, array: Mapping[str, str], *, appends: bool = False) -> None:
        """Assign an array, or add its elements to one."""
        before: Array = {}
        if appends:
            before = self.arrays.get(name) or ({"0": self.values[name]} if name in self.values else {})
            size = len(before)
            array = {str(size + int(key)) if key.isdecimal() else key: value for key, value in array.items()}
        self.values.pop(name, None)
        self.arrays[name] = {**before, **array}

    def unset(self, name: str) -> None:
        """Remove a variable."""
        self.values.pop(name, None)
        self.arrays.pop(name, None)


def merged(ways: list[Variables], marks: Marks, *, line: int) -> Variables:
    """Return the variables after one of several ways through a script; variables that differ are unknown after it."""
    found = ways[0].copy()
    why = f"it depends on the condition in line {line}"
    for other in ways[1:]:
        for name in {*found.values, *other.values} - {*found.arrays, *other.arrays}:
            one, two = found.values.get(name), other.values.get(name)
            if one != two:
                found.values[name] = _shared(one or "", two or "") + marks.mark(f"${name}", line, why=why)
        for name in {*found.arrays, *other.arrays}:
            ours, theirs = found.elements(name) or [], other.elements(name) or []
            if ours != theirs:
                same = _same(ours, theirs)
                found.set_array(name, _numbered([*ours[:same], marks.mark(f"${{{name}[@]}}", line, why=why)]))
        found.exported |= other.exported
    return found


def _shared(one: str, two: str) -> str:
    """The beginning that two values share: all of one of them, or whole words."""
    size = next((index for index, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    return one[:size] if size == min(len(one), len(two)) and one[size:][:1] in "\n " else one[: one.rfind(" ", 0, size) + 1]


def _same(one: list[str], two: list[str]) -> int:
    return next((index for index, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


def _numbered(values: Iterable[str]) -> Array:
    return {str(index): value for index, value in enumerate(values)}


def numbered(values: Iterable[str]) -> Array:
    """An array of values with keys from 0."""
    return _numbered(values)
