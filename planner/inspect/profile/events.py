"""Events of a profile: the operations that each device ran, as arrays, and the runs of the program they belong to."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from lcplan.formats.errors import BadInputError
from planner.inspect.profile.messages import message_class
from planner.inspect.profile.naming import kernel_operation, operation_of_category, operation_of_name
from planner.inspect.profile.operation import Operation, operations_of

MOST_BYTES = 2**31 - 1
"""A protocol buffer's largest size."""
NEWEST = "plugins/profile/*/*.xplane.pb"
"""The files of a profile under the folder that ``jax.profiler.start_trace`` was given."""


@dataclass(frozen=True)
class DeviceEvents:
    """Events of one device in one program. ``run`` numbers the runs of the program; -1: the profile does not number them."""

    device: str
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    run: NDArray[np.int64]
    operation: NDArray[np.int64]
    """Index into the program's operations."""


@dataclass
class Program:
    """One program of a profile, with its operations and the events of each device."""

    name: str
    operations: list[Operation] = field(default_factory=list)
    devices: dict[str, list[tuple[float, float, int, int]]] = field(default_factory=lambda: defaultdict(list))
    """Start, end [s], run and operation of each event, by device."""
    index: dict[str, int] = field(default_factory=dict)

    def add(self, device: str, operation: Operation, *, span: tuple[float, float], run: int) -> None:
        """Add one event."""
        number = self.index.get(operation.name)
        if number is None:
            number = self.index[operation.name] = len(self.operations)
            self.operations.append(operation)
        self.devices[device].append((*span, run, number))

    @property
    def seconds(self) -> float:
        """Time of all events of all devices [s]; events inside others count twice."""
        return sum(end - start for events in self.devices.values() for start, end, _, _ in events)

    def events(self) -> tuple[DeviceEvents, ...]:
        """Return the events of each device by start."""
        return tuple(_columns(device, rows) for device, rows in sorted(self.devices.items()))


def _columns(device: str, rows: list[tuple[float, float, int, int]]) -> DeviceEvents:
    rows = sorted(rows)
    start, end, run, operation = (np.array(column) for column in zip(*rows, strict=True))
    return DeviceEvents(device, start, end, run.astype(np.int64), operation.astype(np.int64))


def profile_files(path: Path) -> tuple[Path, ...]:
    """Return the files of the newest profile in a folder, one for each host; or the file itself.

    Raises
    ------
    BadInputError
        There is no profile.
    """
    if path.is_file():
        return (path,)
    found = sorted(path.glob(NEWEST)) or sorted(path.glob("*.xplane.pb"))
    if not found:
        raise BadInputError(
            f"--profile {path}: no *.xplane.pb in it or in its plugins/profile; give the folder that jax.profiler wrote"
        )
    return tuple(one for one in found if one.parent == found[-1].parent)


def read_programs(files: tuple[Path, ...]) -> tuple[Program, ...]:
    """Return the programs of a profile, the one with most time first.

    Raises
    ------
    BadInputError
        A file is too large, no profile, or has no operation of a device.
    """
    programs: dict[str, Program] = {}
    for number, path in enumerate(files):
        _File(path, host=f"host {number} " if len(files) > 1 else "", programs=programs).read()
    found = sorted((one for one in programs.values() if one.devices), key=lambda one: -one.seconds)
    if not found:
        raise BadInputError(f"--profile {files[0]}: it has no operation of a device; trace steps of a jitted program")
    return tuple(found)


@dataclass
class _File:
    """One host's file."""

    path: Path
    host: str
    programs: dict[str, Program]
    hlo: dict[str, dict[str, Operation]] = field(default_factory=dict)
    base_ns: int = 0
    """Start of the file's first line: seconds since 1970 leave a float no nanoseconds."""

    def read(self) -> None:
        space = self._space()
        self.base_ns = min((line.timestamp_ns for plane in space.planes for line in plane.lines), default=0)
        for plane in space.planes:
            if plane.name == "/host:metadata":
                self._hlo(plane)
        for plane in space.planes:
            if plane.name.startswith("/device:TPU:"):
                self._tpu(plane)
            elif plane.name.startswith("/device:GPU:"):
                self._lines(plane, device=plane.name.removeprefix("/device:"), kernels=True)
            elif plane.name == "/host:CPU":
                self._lines(plane, device="CPU:", kernels=False)

    def _space(self) -> Any:
        try:
            size = self.path.stat().st_size
            if size > MOST_BYTES:
                raise BadInputError(f"--profile {self.path}: {size / 2**30:.1f} GiB; at most 2 GiB are read: trace fewer steps")
            return message_class("XSpace").FromString(self.path.read_bytes())
        except OSError as error:
            raise BadInputError(f"--profile {self.path}: {error.strerror or error}") from None
        except DecodeError:
            raise BadInputError(f"--profile {self.path}: no profile of jax.profiler (an XSpace)") from None

    def _hlo(self, plane: Any) -> None:
        for entry in plane.event_metadata:
            for stat in entry.value.stats:
                if stat.bytes_value:
                    try:
                        name, operations = operations_of(stat.bytes_value)
                    except DecodeError:
                        continue
                    self.hlo.setdefault(name, operations)

    def _program(self, name: str) -> Program:
        return self.programs.setdefault(name, Program(name))

    def _lines(self, plane: Any, *, device: str, kernels: bool) -> None:
        """Read a plane whose events name their instruction in a stat; a GPU's kernel may name none."""
        names = {entry.key: entry.value.name for entry in plane.stat_metadata}
        wanted = {key: name for key, name in names.items() if name in ("hlo_op", "hlo_module", "run_id", "device_ordinal")}
        titles = {entry.key: entry.value.name for entry in plane.event_metadata}
        known_ops = {name for operations in self.hlo.values() for name in operations}
        skipped = {key for key, title in titles.items() if not kernels and known_ops and title not in known_ops}
        last = ""
        for line in plane.lines:
            if kernels and not line.name.startswith("Stream"):
                continue  # lines that a viewer derived repeat the streams' events
            for event in line.events:
                if event.metadata_id in skipped:
                    continue
                stats = {wanted[stat.metadata_id]: _value(stat, names) for stat in event.stats if stat.metadata_id in wanted}
                module, op = str(stats.get("hlo_module", "")), str(stats.get("hlo_op", ""))
                if not op and not kernels:
                    continue
                last = module or last
                known = self.hlo.get(module, {}).get(op)
                operation = known or (kernel_operation(titles[event.metadata_id]) if kernels else operation_of_name(op))
                place = device if kernels else f"{device}{int(stats.get('device_ordinal', 0))}"
                run = int(stats.get("run_id", -1))
                self._program(module or last).add(self.host + place, operation, span=self._span(line, event), run=run)

    def _tpu(self, plane: Any) -> None:
        """Read the operations of a TPU; its runs are the events of the line of modules."""
        metadata = {entry.key: entry.value for entry in plane.event_metadata}
        names = {entry.key: entry.value.name for entry in plane.stat_metadata}
        lines = {line.name: line for line in plane.lines}
        modules = lines.get("XLA Modules")
        runs = (
            sorted((*self._span(modules, event), metadata[event.metadata_id].name) for event in modules.events)
            if modules
            else []
        )
        for title in ("XLA Ops", "Async XLA Ops"):
            line = lines.get(title)
            for event in line.events if line else ():
                start, end = self._span(line, event)
                run = _run_at(runs, start)
                module = runs[run][2].split("(")[0] if run >= 0 else ""
                operation = self._tpu_operation(metadata[event.metadata_id], names, module)
                self._program(module).add(
                    self.host + plane.name.removeprefix("/device:"), operation, span=(start, end), run=run
                )

    def _span(self, line: Any, event: Any) -> tuple[float, float]:
        start = (line.timestamp_ns - self.base_ns) * 1e-9 + event.offset_ps * 1e-12
        return start, start + event.duration_ps * 1e-12

    def _tpu_operation(self, metadata: Any, names: dict[int, str], module: str) -> Operation:
        name = metadata.display_name or metadata.name.split(" =")[0].lstrip("%")
        known = self.hlo.get(module, {}).get(name)
        if known is not None:
            return known
        stats = {names.get(stat.metadata_id, ""): _value(stat, names) for stat in metadata.stats}
        return operation_of_category(name, str(stats.get("hlo_category", "")), path=str(stats.get("tf_op", "")).rstrip(":"))


def _value(stat: Any, names: dict[int, str]) -> Any:
    if stat.ref_value:
        return names.get(stat.ref_value, "")
    return stat.str_value or stat.int64_value or stat.uint64_value or stat.double_value


def _run_at(runs: list[tuple[float, float, str]], moment: float) -> int:
    """Return the run that holds a moment; -1 between runs."""
    place = bisect_right(runs, moment + 1e-12, key=lambda run: run[0]) - 1
    return place if place >= 0 and moment <= runs[place][1] else -1
