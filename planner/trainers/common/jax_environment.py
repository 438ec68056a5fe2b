"""Environment of trainers that run on jax: flags that its version knows, and nothing that would abort it."""

from __future__ import annotations

from lcplan.evidence.plan import Plan
from planner.measure.targets.backends import environment, flags_variable, xla_flags
from planner.trainers import Translation


def jax_environment(translation: Translation, plan: Plan) -> dict[str, str]:
    """Variables for the translated job under the trainer's jax.

    The plan's own flags are kept, but for those of a backend that the trainer's jax lacks. On TPU flags go to
    ``LIBTPU_INIT_ARGS``, elsewhere to ``XLA_FLAGS``.
    """
    job, jax = translation.job, translation.jax
    planned_jax = plan.toolchain.get("jax", "0")
    replaced = set(xla_flags(plan.strategy, plan.request.hardware, jax=planned_jax))
    kept = tuple(flag for flag in plan.xla_flags if flag not in replaced)
    variables = dict(environment(job.strategy, job.hardware, jax=jax))
    pool = plan.environment.get("XLA_PYTHON_CLIENT_MEM_FRACTION")
    if pool is not None:
        variables["XLA_PYTHON_CLIENT_MEM_FRACTION"] = pool
    flags = " ".join([*kept, *xla_flags(job.strategy, job.hardware, jax=jax)])
    variables.pop(flags_variable(job.hardware), None)
    if flags:
        variables[flags_variable(job.hardware)] = flags
    return variables
