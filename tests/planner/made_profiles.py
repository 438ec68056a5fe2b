"""Profiles made by hand in the public format: what each device ran, in microseconds."""

from collections.abc import Sequence
from pathlib import Path

from planner.inspect.profile.messages import message_class

PS = 10**6  # picoseconds of a microsecond


class Plane:
    """One plane; events are (line, name, start, end, stats)."""

    def __init__(self, name: str) -> None:
        self.message = message_class("XPlane")(name=name)
        self._names: dict[str, int] = {}
        self._stats: dict[str, int] = {}
        self._lines: dict[str, object] = {}

    def stat(self, name: str, value: object) -> dict:
        if name not in self._stats:
            self._stats[name] = len(self._stats) + 1
            self.message.stat_metadata.add(key=self._stats[name], value={"name": name})
        field = "str_value" if isinstance(value, str) else "bytes_value" if isinstance(value, bytes) else "int64_value"
        return {"metadata_id": self._stats[name], field: value}

    def metadata(self, name: str, **stats: object) -> int:
        if name not in self._names:
            self._names[name] = len(self._names) + 1
            facts = {"name": name, "stats": [self.stat(key, value) for key, value in stats.items()]}
            self.message.event_metadata.add(key=self._names[name], value=facts)
        return self._names[name]

    def event(self, line: str, name: str, span: tuple[float, float], **stats: object) -> None:
        if line not in self._lines:
            self._lines[line] = self.message.lines.add(name=line, timestamp_ns=1_764_000_000_000_000_000)
        start, end = span
        self._lines[line].events.add(
            metadata_id=self.metadata(name),
            offset_ps=int(start * PS),
            duration_ps=int((end - start) * PS),
            stats=[self.stat(key, value) for key, value in stats.items()],
        )


def hlo(instructions: Sequence[dict], *, name: str = "jit_step", inside: Sequence[dict] = ()) -> Plane:
    """The plane that holds a program; computation 2 is ``inside``, which fusions call."""
    computations = [{"id": 1, "name": "main", "instructions": instructions}]
    computations += [{"id": 2, "name": "fused", "instructions": inside}] if inside else []
    proto = message_class("HloProto")(hlo_module={"name": name, "computations": computations})
    plane = Plane("/host:metadata")
    plane.metadata(f"{name}(1)", hlo_proto=proto.SerializeToString())
    return plane


def write(folder: Path, *planes: Plane) -> Path:
    """A profile's folder as jax.profiler lays it out."""
    space = message_class("XSpace")(planes=[plane.message for plane in planes])
    place = folder / "plugins" / "profile" / "2026_11_29_10_00_00"
    place.mkdir(parents=True)
    (place / "host.xplane.pb").write_bytes(space.SerializeToString())
    return folder


def named(name: str, opcode: str, path: str = "", **fields: object) -> dict:
    """An instruction."""
    return {"name": name, "opcode": opcode, "metadata": {"op_name": path}, **fields}
