"""One export from plan to files: refuse, translate, price, write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.evidence.plan import Evidence, Plan
from lcplan.formats.errors import BadInputError
from lcplan.spec.rollout_workloads import RlWorkload
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy
from planner.export.cost import Cost, cost_of, fits_budget, request_of
from planner.export.launchers import launcher_files
from planner.trainers import Job, Trainer, Translation, all_trainers, trainer
from planner.trainers.common.export_files import LAUNCH_FILE, Launch, launch_script
from planner.trainers.common.rules import export_rules
from planner.trainers.common.translate import translate
from planner.trainers.registry import exporter
from planner.workloads.points import broken_rules


@dataclass(frozen=True)
class Export:
    """A plan as one trainer's files, and the trainer's deviations from it."""

    translation: Translation
    cost: Cost
    files: dict[str, str]
    launch: Launch
    evidence: Evidence
    """Compiles and timings of the plan."""
    check_request: Mapping[str, Any] = field(default_factory=dict)
    """Facts that the trainer's checker asks for (``Written.check``)."""
    main_file: str = ""
    """The file that the checker reads (``Written.main_file``)."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document; the command adds the paths."""
        job = self.translation.trainer
        return {
            "trainer": {"name": job.name, "package": job.package, "version": job.version, "jax": self.translation.jax or None},
            "launch": {
                "command": self.launch.line,
                "environment": {**self.launch.environment, **self.launch.expanded},
                "per": self.launch.per,
                "notes": list(self.launch.notes),
            },
            **self.cost.to_json(),
        }


def export_plan(plan: Plan, name: str, *, jax: str = "", launcher: str | None = None) -> Export:
    """The files of trainer ``name`` for a plan.

    Parameters
    ----------
    plan
        The decision of a search.
    name
        A registered trainer (``planner.trainers.trainer_names``).
    jax
        The jax of the Python that the trainer runs in, where it is known; flags are written for it.
    launcher
        The system that starts the job (``planner.export.launchers.LAUNCHERS``); None: only ``launch.sh`` for each host.

    Raises
    ------
    BadInputError
        The trainer cannot run this model, hardware or mesh; every reason, with an alternative.
    """
    target = trainer(name)
    asked = plan.request.workload
    iteration = asked if isinstance(asked, RlWorkload) else None
    job = Job(plan.request.model, plan.request.hardware, _step_of(plan, target), plan.strategy, iteration)
    if target.own_step and not jax:
        jax = plan.toolchain.get("jax", "")

    def possible(strategy: Strategy) -> bool:
        return fits_budget(plan, strategy, program=target.program) and not trainer_refusals(
            target, replace(job, strategy=strategy), plan=plan
        )

    translation = translate(target, job, fits=possible, jax=jax)
    refused = trainer_refusals(target, translation.job, plan=plan)
    if refused:
        raise BadInputError([f"{name}: {reason}" for reason in refused])
    written = exporter(name)(translation, plan)
    files = {**written.files, LAUNCH_FILE: launch_script(translation, written.launch)}
    if launcher is not None:
        files |= launcher_files(launcher, translation, written.launch, files)
    return Export(
        translation=translation,
        cost=cost_of(plan, translation),
        files=files,
        launch=written.launch,
        evidence=plan.evidence,
        check_request=written.check,
        main_file=written.main_file or target.file,
    )


def _step_of(plan: Plan, target: Trainer) -> Workload:
    """The train step that the trainer is to run; of a rollout the forward pass over whole sequences.

    Raises
    ------
    BadInputError
        The trainer does not take plans of this kind of workload.
    """
    workload = plan.request.workload
    if workload.kind not in target.workloads:
        able = " or ".join(f"--to {one.name}" for one in all_trainers() if workload.kind in one.workloads)
        raise BadInputError(
            f"{target.name}: a plan of --workload {workload.kind} is not exported to {target.title}, which lcplan gives plans"
            f" of --workload {' and '.join(target.workloads)}; {f'use {able}' if able else 'no trainer takes it'}"
        )
    if workload.train is not None:
        return workload.train
    assert workload.sample is not None, "a workload without a train step has a rollout"
    return workload.sample.train_view(workload.seq_len)


def trainer_refusals(target: Trainer, job: Job, *, plan: Plan) -> list[str]:
    """Rules of the trainer, and of every strategy, that the job as it would run breaks."""
    request = request_of(plan)
    setting = Setting(model=job.model, hardware=job.hardware, workload=job.workload, budget_bytes=request.budget_bytes)
    asked = request.workload
    whole = setting if asked.train is asked else replace(setting, workload=asked)
    table = StrategyTable.from_strategies([job.strategy])
    own = [rule.explain(setting, job.strategy) for rule in export_rules(target) if rule.broken(setting, table)[0]]
    if job.workload.precision not in target.precisions:
        own.append(f"precision {job.workload.precision} is not exported; plan for bf16")
    return [*own, *broken_rules(whole, job.strategy)]
