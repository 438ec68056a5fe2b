"""A workload that only the registry knows goes through search, questions and documents: no module asks for the kind."""

from dataclasses import replace
from typing import ClassVar, Literal

import pytest

from lcplan import catalog
from lcplan.formats.errors import BadInputError
from lcplan.spec.workload import Workload
from lcplan.spec.workload_facts import WorkloadFacts
from planner.measure.targets.toolchain import probe
from planner.measure.workers.pool import PoolLimits
from planner.report.terminal.search import headline
from planner.request.request import SearchRequest
from planner.request.request_changes import Ask
from planner.run.measuring import Bench
from planner.run.stages import Effort, search
from planner.what_if.boundary import boundary
from planner.what_if.question import what_if
from planner.workloads.registry import WORKLOADS
from planner.workloads.train import TrainStep

HARDWARE = catalog.hardware("dgx-h100")


class EvalWorkload(Workload):
    """The forward passes of a held-out set."""

    facts: ClassVar[WorkloadFacts] = replace(Workload.facts, label="an evaluation", unit="evaluation")
    kind: Literal["eval"] = "eval"  # type: ignore[assignment]

    @property
    def train(self) -> Workload:
        return Workload(seq_len=self.seq_len, global_batch=self.global_batch)

    @property
    def description(self) -> str:
        return f"{self.global_batch} x {self.seq_len} tokens an evaluation"


class Evaluation(TrainStep):
    """A third of a train step's time, and its memory."""

    refused_questions: ClassVar = {"max-seq": "max-seq is asked of a train step"}

    def price(self, setting, table):
        priced = super().price(setting, table)
        times = {name: seconds / 3 for name, seconds in priced.time_s.items()}
        return replace(priced, time_s=times, step_s=priced.step_s / 3, tokens_per_s=priced.tokens_per_s * 3)


class Silent:
    def stage(self, name, total):
        pass

    def finished(self, candidate):
        pass


@pytest.fixture
def request_of_toy(monkeypatch) -> SearchRequest:
    monkeypatch.setitem(WORKLOADS, "eval", Evaluation())
    trained = Workload(seq_len=2**16, global_batch=8)
    base = SearchRequest(
        model=catalog.model("llama3-8b"), hardware=HARDWARE, workload=trained, budget_bytes=HARDWARE.usable_bytes
    )
    return base.model_copy(update={"workload": EvalWorkload(seq_len=2**16, global_batch=8)})


def found(request):
    return search(Bench(request, probe(), PoolLimits(jobs=1)), Effort("modelled", 8), Silent())


def test_its_own_prices_decide_a_search(request_of_toy):
    toy = found(request_of_toy)
    trained = found(request_of_toy.model_copy(update={"workload": Workload(seq_len=2**16, global_batch=8)}))
    assert toy.winner is not None
    assert trained.winner is not None
    assert toy.winner.strategy == trained.winner.strategy
    assert toy.winner.best.step_s == pytest.approx(trained.winner.best.step_s / 3)
    assert toy.to_json()["request"]["workload"]["kind"] == "eval"
    assert "8 x 65536 tokens an evaluation" in headline(request_of_toy).plain


def test_its_questions_are_answered_or_refused_by_its_own_words(request_of_toy):
    largest = what_if(request_of_toy, "max-batch", backends=("nccl",)).answer
    assert largest is not None
    assert largest.candidate is not None
    expected = boundary(Ask(request_of_toy, ("nccl",), HARDWARE.devices), "max-batch", explain=False)
    assert largest.value == expected.value
    with pytest.raises(BadInputError, match="max-seq is asked of a train step"):
        what_if(request_of_toy, "max-seq", backends=("nccl",))


def test_its_programs_are_built(request_of_toy):
    strategy = WORKLOADS["eval"].points(request_of_toy, ("nccl",)).strategy(0)
    (job,) = WORKLOADS["eval"].programs(request_of_toy, strategy)
    assert job.strategy == strategy
    assert job.workload.kind == "train"
