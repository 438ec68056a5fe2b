"""Keys: the same for what compiles to the same program, another for everything else."""

from __future__ import annotations

from measuring import MakeJob

from planner.measure.targets.target import target_for
from planner.measure.targets.toolchain import Toolchain
from planner.measure.workers.job import CompileJob, Program, Purpose, job_key, resolve


def key(job: CompileJob, toolchain: Toolchain, *, purpose: Purpose = "compile", kernel: str = "blockwise") -> str:
    target = target_for(job.strategy, job.hardware, toolchain=toolchain)
    return job_key(job, resolve(job, target, purpose=purpose, kernel=kernel), toolchain=toolchain)


def test_names_and_notes_do_not_change_a_key(toolchain: Toolchain, make_job: MakeJob) -> None:
    job = make_job(context=2)
    renamed = job.model.model_copy(update={"name": "other", "source": "elsewhere", "notes": ("a note",), "max_position": 9})
    unsaid = job.workload.model_copy(update={"global_batch_given": False})
    same = job.model_copy(update={"model": renamed, "workload": unsaid})
    assert key(job, toolchain) == key(same, toolchain)


def test_everything_else_does(toolchain: Toolchain, make_job: MakeJob) -> None:
    job = make_job(context=2)
    others = [
        make_job(context=4),
        make_job(fsdp=2),
        make_job(context=2, layers=3),
        make_job(context=2, remat="save-all"),
        make_job(context=2, axis_order=("data", "context", "fsdp", "expert", "tensor")),
        job.model_copy(update={"workload": job.workload.model_copy(update={"seq_len": 512})}),
        job.model_copy(update={"program": Program(module="other", packages=("lcplan", "planner"))}),
        job.model_copy(update={"program": Program(module=job.program.module, packages=("lcplan",))}),
    ]
    newer = toolchain.model_copy(update={"versions": {**toolchain.versions, "jaxlib": "9.9"}})
    keys = [key(job, toolchain), *(key(other, toolchain) for other in others)]
    keys += [key(job, newer), key(job, toolchain, purpose="time"), key(job, toolchain, kernel="cudnn")]
    assert len(set(keys)) == len(keys)


def test_jobs_can_be_counted_in_sets(make_job: MakeJob) -> None:
    assert len({make_job(context=2), make_job(context=2), make_job(context=4)}) == 2
