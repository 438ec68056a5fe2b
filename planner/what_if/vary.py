"""``--vary``: the quantities of a sweep, their values, and the effect of each on a request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, get_args

from lcplan import catalog
from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from lcplan.formats.text import whole_in
from lcplan.formats.units import parse_bytes, parse_tokens
from lcplan.spec.hardware import Figure, HardwareSpec
from lcplan.strategy import AXIS_RECORDS, KNOB_ALIASES, KNOBS, Axis, Dtype, Knob, KvDtype
from lcplan.strategy.knob import UNBOUNDED
from lcplan.strategy.knobs import ALL, ROLLOUT
from planner.request.filters import AxisFilter
from planner.request.request import default_global_batch
from planner.request.request_changes import Ask

MOST_POINTS = 10_000
MOST_DOUBLINGS = 64
Value = int | float | str


@dataclass(frozen=True)
class Quantity:
    """A quantity that can vary: how its values are read, its JSON name with unit, and the effect of a value."""

    name: str
    json_name: str
    parse: Callable[[str], Value]
    apply: Callable[[Ask, Any], Ask]
    ordered: bool = True
    """Whether ``a..b`` (doubling) makes sense."""
    workloads: tuple[str, ...] = ALL
    """Kinds of workload that have it."""


@dataclass(frozen=True)
class Varied:
    """One ``--vary``: a quantity and its values in the order given."""

    quantity: Quantity
    values: tuple[Value, ...]


def parse_vary(texts: tuple[str, ...]) -> tuple[Varied, ...]:
    """``seq=64k..1m`` (doubling) and ``hbm=80GiB,141GiB`` as values.

    Raises
    ------
    BadInputError
        With every problem: unknown or repeated quantities, values that cannot be read, too many points.
    """
    problems: list[str] = []
    varied: list[Varied] = []
    for text in texts:
        try:
            varied.append(_one(text))
        except BadInputError as error:
            problems.extend(error.problems)
    names = [one.quantity.name for one in varied]
    repeated = sorted({name for name in names if names.count(name) > 1})
    problems += [f"--vary {name} is given twice; give all its values in one" for name in repeated]
    points = 1
    for one in varied:
        points *= len(one.values)
    if points > MOST_POINTS:
        problems.append(f"--vary: {points:,} points are more than {MOST_POINTS:,}; give fewer values")
    if problems:
        raise BadInputError(problems)
    return tuple(varied)


def _one(text: str) -> Varied:
    name, equals, values = text.partition("=")
    name = _EARLIER.get(name.strip(), name.strip())
    if not equals or not values.strip():
        raise BadInputError(f"--vary {text!r}: write quantity=values, for example seq=64k..1m or hbm=80GiB,141GiB")
    if name == "offload" and name not in QUANTITIES:
        raise BadInputError("--vary offload: the host's memory is a remat policy's choice; vary remat=full,offload-layer-in")
    if name not in QUANTITIES:
        raise BadInputError(f"--vary: unknown quantity {name!r}{hint(name, QUANTITIES)}")
    quantity = QUANTITIES[name]
    found: list[Value] = []
    for part in values.split(","):
        found.extend(value for value in _values(quantity, part.strip()) if value not in found)
    return Varied(quantity, tuple(found))


def _values(quantity: Quantity, text: str) -> Iterator[Value]:
    low, dots, high = text.partition("..")
    if not dots:
        yield quantity.parse(text)
        return
    first, last = quantity.parse(low.strip()), quantity.parse(high.strip())
    if not quantity.ordered or isinstance(first, str) or isinstance(last, str) or first > last:
        raise BadInputError(f"--vary {quantity.name}={text}: not a range; write low..high, or values with commas")
    for doubling in range(MOST_DOUBLINGS):
        value = first * 2**doubling
        if value >= last:
            break
        yield value
    yield last


def combinations(varied: tuple[Varied, ...]) -> Iterator[tuple[tuple[Quantity, Value], ...]]:
    """Every combination of values; the last quantity varies fastest."""
    for values in product(*(one.values for one in varied)):
        yield tuple((one.quantity, value) for one, value in zip(varied, values, strict=True))


def applied(ask: Ask, combination: tuple[tuple[Quantity, Value], ...]) -> Ask:
    """The ask with every value in place; a batch that nobody gave follows the length."""
    for quantity, value in sorted(combination, key=lambda one: one[0].name != "hw"):  # the others depend on the hardware
        ask = quantity.apply(ask, value)
    request = ask.request
    if request.workload.global_batch_given:
        return ask
    batch = default_global_batch(request.workload.seq_len, request.hardware, ask.most_devices)
    workload = request.workload.resized(global_batch=batch)
    return ask.with_request(request.model_copy(update={"workload": workload}))


def point_json(combination: tuple[tuple[Quantity, Value], ...]) -> dict[str, Value]:
    """A point's values under the names that ``--vary`` takes and, where they differ, under the names with units."""
    return {name: value for quantity, value in combination for name in (quantity.name, quantity.json_name)}


def _workload(field: str) -> Callable[[Ask, Any], Ask]:
    def apply(ask: Ask, value: Any) -> Ask:
        given = True if field == "global_batch" else None
        workload = ask.request.workload.resized(**{field: value}, given=given)
        return ask.with_request(ask.request.model_copy(update={"workload": workload}))

    return apply


def _field(name: str) -> Callable[[Ask, Any], Ask]:
    """Replace one field of the workload."""

    def apply(ask: Ask, value: Any) -> Ask:
        workload = ask.request.workload.model_copy(update={name: value})
        return ask.with_request(ask.request.model_copy(update={"workload": workload}))

    return apply


def _devices(ask: Ask, value: int) -> Ask:
    hardware = ask.request.hardware
    if value > hardware.devices:
        raise BadInputError(f"--vary devices={value}: {hardware.name} has {hardware.devices}; ask for more domains with --hw")
    return replace(ask, most_devices=value)


def _hardware(ask: Ask, value: str) -> Ask:
    """The same job on other hardware: all of its devices, unless the request limits them, and its usable memory.

    The batch stays, so that every point does the same work.
    """
    before, hardware = ask.request.hardware, catalog.hardware(value)
    most = hardware.devices if ask.most_devices == before.devices else min(ask.most_devices, hardware.devices)
    backends = tuple(name for name in ask.backends if name in hardware.backends) or hardware.backends[:1]
    workload = ask.request.workload.resized(global_batch=ask.request.workload.global_batch, given=True)
    changes = {"hardware": hardware, "budget_bytes": hardware.usable_bytes, "workload": workload}
    return Ask(ask.request.model_copy(update=changes), backends, most)


def _cluster(text: str) -> str:
    catalog.hardware(text)
    return text


def _hbm(ask: Ask, value: int) -> Ask:
    """Memory of a device; the budget is the same share of it that the hardware lets a job use."""
    hardware = ask.request.hardware
    device = hardware.device.model_copy(update={"hbm_bytes": _asked(value, "hbm")})
    changed = hardware.model_copy(update={"device": device})
    return ask.with_request(ask.request.model_copy(update={"hardware": changed, "budget_bytes": changed.usable_bytes}))


def _bandwidth(ask: Ask, value: float) -> Ask:
    """The network between domains where there are several, else the domain's own link; a negative value is a factor."""
    hardware = ask.request.hardware
    if hardware.domains > 1 and hardware.network_link is not None:
        names = ["network_link"]
    else:
        names = ["domain_link", *(["ici_link"] if hardware.ici_link is not None else [])]
    links = {}
    base = getattr(hardware, names[0]).oneway_bytes_per_s.value
    for name in names:
        link = getattr(hardware, name)
        scale = -value if value < 0 else value / base
        figure = _asked(link.oneway_bytes_per_s.value * scale, "bandwidth")
        links[name] = link.model_copy(update={"oneway_bytes_per_s": figure})
    return ask.with_request(ask.request.model_copy(update={"hardware": hardware.model_copy(update=links)}))


def _asked(value: float, name: str) -> Figure:
    return Figure(value=value, source=f"asked for with --vary {name}", kind="user")


def _filter(field: str) -> Callable[[Ask, Any], Ask]:
    def apply(ask: Ask, value: Any) -> Ask:
        filters = ask.request.filters.model_copy(update={field: (value,)})
        return ask.with_request(ask.request.model_copy(update={"filters": filters}))

    return apply


def _axis(name: str) -> Callable[[Ask, Any], Ask]:
    def apply(ask: Ask, value: Any) -> Ask:
        mesh = {**ask.request.filters.mesh, name: AxisFilter(intervals=((value, value),))}
        filters = ask.request.filters.model_copy(update={"mesh": mesh})
        return ask.with_request(ask.request.model_copy(update={"filters": filters}))

    return apply


def _count(name: str, most: int = UNBOUNDED, *, least: int = 1) -> Callable[[str], int]:
    def parse(text: str) -> int:
        found = whole_in(text)
        if found is None or not least <= found <= most:
            limit = f", at most {most}" if most < UNBOUNDED else ""
            raise BadInputError(f"--vary {name}={text:.60}: not a whole number{' above zero' if least else ''}{limit}")
        return found

    return parse


def _tokens(name: str) -> Callable[[str], int]:
    return lambda text: parse_tokens(text, f"--vary {name}")


def _known(name: str, known: tuple[str, ...]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in known:
            raise BadInputError(f"--vary {name}: unknown value {text!r}{hint(text, known)}")
        return text

    return parse


def _speed(text: str) -> float:
    """Parse ``50GB/s`` into bytes per second, or ``2x`` into minus two."""
    if text.endswith("x"):
        try:
            factor = float(text[:-1])
        except ValueError:
            factor = 0.0
        if not 0 < factor < 2**20:
            raise BadInputError(f"--vary bandwidth={text}: not a factor above zero, for example 0.5x")
        return -factor
    return float(parse_bytes(text.removesuffix("/s"), "--vary bandwidth"))


def _axis_quantity(axis: Axis) -> Quantity:
    workloads = ALL if axis.in_rollout else ("train", "rl")
    return Quantity(axis.name, axis.name, _count(axis.name), _axis(axis.name), workloads=workloads)


def _named(knob: Knob) -> Callable[[str], Value]:
    parse = _known(knob.word, knob.values)
    return lambda text: parse(knob.value(text))


def _knob(knob: Knob) -> Quantity:
    """A filter of one value, of any knob."""
    parse: Callable[[str], Value]
    parse = _count(knob.word, knob.most, least=knob.least) if knob.is_number else _named(knob)
    return Quantity(knob.word, knob.name, parse, _filter(knob.name), knob.is_number, knob.workloads)


_DTYPES = get_args(Dtype)
_PLAIN = (
    Quantity("hbm", "hbm_bytes", lambda text: parse_bytes(text, "--vary hbm"), _hbm),
    Quantity("hw", "hw", _cluster, _hardware, ordered=False),
    Quantity("devices", "devices", _count("devices"), _devices),
    Quantity("seq", "seq_len", _tokens("seq"), _workload("seq_len"), workloads=("train",)),
    Quantity("batch", "global_batch", _count("batch"), _workload("global_batch")),
    Quantity("document-len", "document_len", _tokens("document-len"), _field("document_len"), workloads=("train",)),
    Quantity("bandwidth", "bandwidth_oneway_bytes_per_s", _speed, _bandwidth, ordered=False),
    Quantity("dtype", "precision", _known("dtype", _DTYPES), _field("precision"), ordered=False, workloads=("train",)),
    Quantity("prompt", "prompt", _tokens("prompt"), _field("prompt"), workloads=ROLLOUT),
    Quantity("generate", "generate", _tokens("generate"), _field("generate"), workloads=ROLLOUT),
    Quantity("kv-dtype", "kv_dtype", _known("kv-dtype", get_args(KvDtype)), _field("kv_dtype"), False, ROLLOUT),
)
QUANTITIES: dict[str, Quantity] = {
    **{quantity.name: quantity for quantity in _PLAIN},
    **{name: _axis_quantity(axis) for name, axis in AXIS_RECORDS.items()},
    **{knob.word: _knob(knob) for knob in KNOBS.values()},
}
"""Every quantity by the name that ``--vary`` takes."""
_EARLIER = {alias.replace("_", "-"): KNOBS[name].word for alias, name in KNOB_ALIASES.items()}
"""Quantities by their earlier spellings."""


def link_bandwidth(hardware: HardwareSpec) -> float:
    """The bandwidth that ``bandwidth`` varies [bytes/s, one way, a device]."""
    crossing = hardware.domains > 1 and hardware.network_link is not None
    link = hardware.network_link if crossing and hardware.network_link else hardware.ici_link or hardware.domain_link
    return link.oneway_bytes_per_s.value
