"""The mesh on the machine: for each axis the devices of one group, and the links that its groups run over."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.segments import segment_of
from lcplan.strategy import Strategy
from planner.report.charts.chart import PALETTE, Chart, Figures

WIDEST = 36
"""Devices a row; a larger domain wraps."""
MOST_DEVICES = 512
"""Devices that are drawn: beyond this the picture repeats itself."""
LEAST_PIXELS, MOST_PIXELS, ROOM_PIXELS = 20, 36, 720
HEADER_PIXELS = 300
"""Height of a panel's caption."""


@dataclass(frozen=True)
class AxisPlace:
    """One axis: the distance of its neighbours, and the links of its groups."""

    axis: str
    size: int
    stride: int
    link: str
    inside: bool

    @property
    def words(self) -> str:
        """One line for people."""
        where = "inside a domain" if self.inside else "across domains"
        return f"{self.axis} = {self.size}: over {self.link}, {where}"


def axis_places(strategy: Strategy, hardware: HardwareSpec) -> tuple[AxisPlace, ...]:
    """Every axis above one, outermost first; devices are in mesh order, the last axis on neighbours."""
    found = []
    for index, axis in enumerate(strategy.mesh_axes):
        size = getattr(strategy.mesh, axis)
        stride = prod(getattr(strategy.mesh, inner) for inner in strategy.mesh_axes[index + 1 :])
        if size > 1:
            segment = segment_of(hardware, strategy.devices, strategy.segment)
            inside = segment % (stride * size) == 0
            network = hardware.network_link
            link = hardware.domain_link.name if inside or network is None else network.name
            found.append(AxisPlace(axis, size, stride, link, inside))
    return tuple(found)


def mesh_map(strategy: Strategy, hardware: HardwareSpec) -> Chart | None:
    """One picture of the machine an axis: the group of the first device filled. None for one device, which has no axis."""
    places = axis_places(strategy, hardware)
    if not places:
        return None
    drawn = min(strategy.devices, MOST_DEVICES)
    segment = segment_of(hardware, strategy.devices, strategy.segment)
    columns = min(segment, WIDEST)
    machine = _Machine(segment, hardware.node_size, columns)
    values = [_device(place, device, machine) for place in places for device in range(drawn)]
    note = f"Only the first {drawn} of {strategy.devices} devices are drawn." if drawn < strategy.devices else ""
    says = (
        "Devices of the machine as squares, one panel per axis; filled squares are the group of the first device. "
        + "; ".join(place.words for place in places)
    )
    return Chart("mesh", "The mesh on the hardware", says, _spec(values, places, columns=columns), _figures(places), note)


@dataclass(frozen=True)
class _Machine:
    """The devices that a job uses of each domain and host, and those drawn in one row."""

    segment: int
    node_size: int
    columns: int


def _device(place: AxisPlace, device: int, machine: _Machine) -> dict[str, Any]:
    domain, local = divmod(device, machine.segment)
    columns = machine.columns
    member = device // place.stride % place.size
    first = local // columns * columns
    return {
        "panel": place.words,
        "row": f"domain {domain}" if columns == machine.segment else f"domain {domain}, from {first}",
        "column": local % columns,
        "device": device,
        "domain": domain,
        "node": device // machine.node_size,
        "rank": member,
        "group": "its group" if device == member * place.stride else "other groups",
    }


def _spec(values: list[dict[str, Any]], places: tuple[AxisPlace, ...], *, columns: int) -> dict[str, Any]:
    rows = list(dict.fromkeys(value["row"] for value in values))
    pixels = max(LEAST_PIXELS, min(MOST_PIXELS, ROOM_PIXELS // max(columns, 1)))
    fill = {"field": "group", "type": "ordinal", "scale": {"domain": ["its group", "other groups"], "range": [1, 0.12]}}
    apart = {"scale": {"paddingInner": 0.18}, "title": None}
    header = {"labelAngle": 0, "labelAnchor": "start", "labelOrient": "top", "labelPadding": 6}
    return {
        "data": {"values": values},
        "facet": {
            "field": "panel",
            "type": "nominal",
            "sort": [place.words for place in places],
            "title": None,
            "header": header,
        },
        "columns": max(1, ROOM_PIXELS // max(pixels * columns, HEADER_PIXELS)),
        "spacing": 24,
        "spec": {
            "width": pixels * columns,
            "height": pixels * len(rows),
            "mark": {"type": "rect", "stroke": "currentColor", "strokeWidth": 1, "cornerRadius": 3},
            "encoding": {
                "x": {"field": "column", "type": "ordinal", "axis": None, **apart},
                "y": {"field": "row", "type": "ordinal", "sort": rows, "axis": {"ticks": False, "domain": False}, **apart},
                "fillOpacity": {**fill, "legend": None},
                "color": {"value": PALETTE[0]},
                "tooltip": [{"field": name, "type": "nominal"} for name in ("device", "domain", "node", "rank", "group")],
            },
        },
    }


def _figures(places: tuple[AxisPlace, ...]) -> Figures:
    rows = tuple(
        (place.axis, str(place.size), str(place.stride), place.link, "inside a domain" if place.inside else "across domains")
        for place in places
    )
    return Figures(("axis", "size", "devices apart", "link", "where"), rows)
