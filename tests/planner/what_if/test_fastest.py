"""The fastest strategy that fits, found without pricing all: the same as a search of every strategy finds."""

import pytest

from planner.request.request_changes import Ask
from planner.what_if.fastest import fastest_that_fits
from planner.workloads.points import analyse
from planner.workloads.registry import planned
from planner.workloads.train import TrainStep

BACKENDS = ("nccl", "nvshmem")


@pytest.mark.parametrize(
    ("model", "hw", "fields"),
    [
        ("llama3-8b", "gb200-nvl72x2", {"batch": 32}),
        ("llama3-8b", "gb200-nvl72x2", {"batch": 32, "objective": "tokens_per_s_per_device"}),
        ("llama3-8b", "dgx-h100x4", {"devices": 16, "seq": 2**16, "batch": 32}),
        ("llama3.1-405b", "dgx-h100", {"seq": 2**13}),  # nothing fits
        ("qwen3-30b-a3b", "dgx-h200x2", {"seq": 2**15, "batch": 64}),
    ],
)
def test_it_is_the_winner_of_a_search(ask, model, hw, fields):
    request = ask(model, hw, **fields)
    searched = analyse(request, BACKENDS).fastest()
    found = fastest_that_fits(Ask(request, BACKENDS, request.devices or request.hardware.devices))
    assert (found and (found.strategy, found.estimate)) == (searched and (searched.strategy, searched.estimate))


def test_counts_that_cannot_win_are_not_priced(ask, monkeypatch):
    request = ask("llama3-8b", "gb200-nvl72x16", seq=2**17, batch=1024)
    priced = []

    def price(self, setting, table):
        priced.append(len(table))
        return original(self, setting, table)

    original = TrainStep.price
    monkeypatch.setattr(TrainStep, "price", price)
    fastest_that_fits(Ask(request, BACKENDS, request.hardware.devices))
    assert len(priced) <= 4
    assert sum(priced) < len(planned(request).points(request, BACKENDS)) / 2
