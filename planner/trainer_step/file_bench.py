"""The bench that compiles one file of a trainer with the trainer's own program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy
from planner.candidates.candidate import Candidate
from planner.measure.trainer_step.job import TrainerJob
from planner.request.request import SearchRequest
from planner.trainer_step.bench import TrainerBench
from planner.trainers.common.imported import Imported
from planner.trainers.maxtext.configuration.pre_train import model_keys, per_device_batch


@dataclass(frozen=True)
class FileBench(TrainerBench):
    """A bench for the candidate that a file describes."""

    said: Mapping[str, Any] = field(default_factory=dict)
    """The file's keys and values."""
    slices: int = 1

    def compile(self, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
        """Each candidate with the compile of the file itself."""
        jobs = {self.job(self.said, one.strategy): one for one in candidates}
        for job, compiled in self.rows(list(jobs)):
            yield jobs[job].with_compiled(compiled, self.request.budget_bytes)

    def job(self, settings: Mapping[str, Any], strategy: Strategy) -> TrainerJob:
        """The job of the file, which states its slices itself."""
        return super().job(settings, strategy).model_copy(update={"slices": self.slices})


def file_bench(bench: TrainerBench, imported: Imported) -> FileBench:
    """The bench of a file that was read, on the machine of the request."""
    said = complete(imported, bench.request)
    slices = int(imported.settings.get("slices", 1))
    made = FileBench(bench.request, bench.toolchain, bench.limits, bench.store, bench.engine, trainer=bench.trainer)
    return replace(made, said=said, slices=slices)


def complete(imported: Imported, request: SearchRequest) -> dict[str, Any]:
    """The file's keys and values, and the ones that only the command line gives: model, sequence and batch."""
    assert isinstance(request.workload, Workload), "a trainer's file describes a train step"
    said = {key: value for key, value in imported.settings.items() if key != "slices"}
    said.setdefault("max_target_length", request.workload.seq_len)
    if "per_device_batch_size" not in said and request.devices:
        steps = int(said.get("gradient_accumulation_steps", 1))
        tiles = int(said.get("num_vocab_tiling", 1))
        sequences = request.workload.global_batch // steps
        size = per_device_batch(sequences, request.devices, seq=request.workload.seq_len, tiles=tiles)
        said["per_device_batch_size"] = size
    named = "model_name" in said or "model" in imported.options or "model" in imported.defaults
    return said if named else {**model_keys(request.model), **said}
