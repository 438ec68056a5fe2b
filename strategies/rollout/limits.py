"""Limits of the rollout's program, each with its reason, checked before anything is traced."""

from __future__ import annotations

from collections.abc import Iterator

from lcplan.formats.errors import BadInputError
from strategies.rollout.sample_spec import SampleSpec
from strategies.train.limits import check as check_step


def check(spec: SampleSpec) -> None:
    """Check the limits of the rollout and of the train step, whose forward pass is prefill.

    Raises
    ------
    BadInputError
        The spec is outside a limit; one line for each.
    """
    problems = list(_rollout(spec))
    for step in (spec.stored, spec.served):
        try:
            check_step(step)
        except BadInputError as error:
            problems += [problem for problem in error.problems if problem not in problems]
    if problems:
        raise BadInputError(problems)


def _rollout(spec: SampleSpec) -> Iterator[str]:
    mesh, work, layout = spec.sampling.mesh, spec.workload, spec.sampling.parameters
    if mesh.context > 1:
        yield f"context={mesh.context}: a decode step has one token per sequence; use data, fsdp and tensor"
    ranks = mesh.data * mesh.fsdp
    if work.batch % (ranks * mesh.tensor):
        yield (
            f"batch={work.batch} sequences over data x fsdp = {ranks}: tensor={mesh.tensor} does not divide a rank's part;"
            " choose a batch that data x fsdp x tensor divides"
        )
    if layout.startswith("gathered") and mesh.fsdp == 1:
        yield f"parameters={layout} with fsdp=1: there is nothing to gather; use replicated or tensor-sharded"
    if not layout.startswith("gathered") and mesh.fsdp > 1:
        yield f"parameters={layout} with fsdp={mesh.fsdp}: put these devices on data, or use gathered-once"
    if layout == "replicated" and mesh.tensor > 1:
        yield f"parameters=replicated with tensor={mesh.tensor}: that is tensor-sharded"
    if layout == "tensor-sharded" and mesh.tensor == 1:
        yield "parameters=tensor-sharded with tensor=1: that is replicated"
