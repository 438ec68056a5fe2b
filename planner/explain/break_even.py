"""Break-even: the change outside a strategy with which it would beat the winner, by the cost model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lcplan.formats.units import format_tokens, three_digits
from lcplan.strategy import Strategy
from planner.request.request import SearchRequest
from planner.request.request_changes import Ask
from planner.space.analysis import setting_of
from planner.what_if.vary import QUANTITIES, link_bandwidth
from planner.workloads.points import broken_rules
from planner.workloads.pricing import price_table, table_of

DOUBLINGS = 6
"""Lengths, batches and bandwidths up to 64 times as large or small are tried."""


@dataclass(frozen=True)
class BreakEven:
    """One quantity, the nearest tried value at which the strategy beats the winner, and the sentence about it."""

    quantity: str
    value: float
    says: str


def break_evens(request: SearchRequest, *, strategy: Strategy, winner: Strategy) -> tuple[BreakEven, ...]:
    """The nearest value of each quantity, in doublings from the request's own, at which the strategy fits and is faster."""
    found = []
    for quantity in (_sequence, _batch, _bandwidth, _memory):
        for tried in quantity(request):
            how = _wins(tried.request, strategy=strategy, winner=winner)
            if how is not None:
                found.append(BreakEven(tried.quantity, tried.value, f"{tried.says}{how}"))
                break
    return tuple(found)


@dataclass(frozen=True)
class _Tried:
    quantity: str
    value: float
    says: str
    request: SearchRequest


def _wins(request: SearchRequest, *, strategy: Strategy, winner: Strategy) -> str | None:
    """How the strategy wins there: faster (no more words), or because the winner is no match; None where it does not."""
    setting = setting_of(request)
    if broken_rules(setting, strategy):
        return None
    priced = price_table(setting, table_of(setting, [strategy, winner]))
    if not priced.fits[0]:
        return None
    if broken_rules(setting, winner):
        return ", where the winner is against a rule"
    if not priced.fits[1]:
        return ", where the winner does not fit"
    each = (strategy.devices, winner.devices) if request.objective == "tokens_per_s_per_device" else (1, 1)
    return "" if priced.step_s[0] * each[0] < priced.step_s[1] * each[1] else None


def _outwards() -> Iterator[float]:
    for doubling in range(1, DOUBLINGS + 1):
        yield 2.0**doubling
        yield 2.0**-doubling


def _applied(request: SearchRequest, name: str, *, value: float | int) -> SearchRequest:
    ask = Ask(request, request.hardware.backends, request.hardware.devices)
    return QUANTITIES[name].apply(ask, value).request


def _workload(request: SearchRequest, name: str, *, now: int, words: Callable[[int], str]) -> Iterator[_Tried]:
    for factor in _outwards():
        value = int(now * factor)
        if value >= 1 and value == now * factor:
            yield _Tried(name, value, words(value), _applied(request, name, value=value))


def _sequence(request: SearchRequest) -> Iterator[_Tried]:
    now = request.workload.seq_len
    yield from _workload(request, "seq", now=now, words=lambda value: f"sequences of {format_tokens(value)}")


def _batch(request: SearchRequest) -> Iterator[_Tried]:
    now = request.workload.global_batch
    yield from _workload(request, "batch", now=now, words=lambda value: f"a global batch of {value}")


def _bandwidth(request: SearchRequest) -> Iterator[_Tried]:
    crossing = request.hardware.domains > 1 and request.hardware.network_link is not None
    link = request.hardware.network_link if crossing and request.hardware.network_link else request.hardware.domain_link
    for factor in _outwards():
        changed = _applied(request, "bandwidth", value=-factor)
        speed = link_bandwidth(changed.hardware)
        says = f"{link.name} at {factor:g} times its bandwidth ({three_digits(speed / 1e9)} GB/s one way)"
        yield _Tried("bandwidth", speed, says, changed)


def _memory(request: SearchRequest) -> Iterator[_Tried]:
    for doubling in range(1, DOUBLINGS + 1):
        budget = request.budget_bytes * 2**doubling
        changed = request.model_copy(update={"budget_bytes": budget})
        yield _Tried("budget", budget, f"{2**doubling} times the memory", changed)
