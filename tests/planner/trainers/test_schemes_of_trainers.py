"""Every trainer exports every context scheme as it is, exports another in its place with a reason, or refuses it."""

import pytest

from lcplan.catalog import hardware, model
from lcplan.formats.errors import BadInputError
from lcplan.spec.workload import Workload
from lcplan.strategy import SCHEME_FACTS, SCHEMES, Mesh, Strategy
from planner.trainers import Job, trainer, trainer_names
from planner.trainers.common.translate import translate

MACHINES = {"gpu": "dgx-h100x2", "tpu": "tpu-v5p-64"}


def translated(target, job):
    """None where the trainer refuses, which takes a message."""
    try:
        return translate(target, job, fits=lambda _: True)
    except BadInputError:
        return None


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize("name", trainer_names())
@pytest.mark.parametrize("facts", SCHEME_FACTS.values(), ids=lambda facts: facts.name)
def test_a_trainer_exports_a_scheme_or_gives_its_reason(facts, name, kind):
    target, machine = trainer(name), hardware(MACHINES[kind])
    if kind not in target.kinds:
        pytest.skip(f"{name} runs on {target.kinds}")
    knob = target.knobs(machine, "0.10.1")["scheme"]
    assert set(knob.runs[facts.name]) <= set(SCHEMES)
    strategy = Strategy(
        mesh=Mesh(context=4, fsdp=4), scheme=facts.name, ulysses=2 if facts.groups else 1, backend=machine.backends[0]
    )
    job = Job(model("llama3-8b"), machine, Workload(seq_len=65536, global_batch=4), strategy)
    translation = translated(target, job)
    if translation is None:
        return
    runs, changes = translation.job.strategy, {change.name: change for change in translation.differences}
    assert (runs.scheme != facts.name) == ("scheme" in changes)
    assert runs.scheme == facts.name or changes["scheme"].why
    assert SCHEME_FACTS[runs.scheme].groups or runs.ulysses == 1
