"""A trainer in JAX whose own step is slower than the priced one: the answer states its published pace."""

import pytest

from planner.run.pace import pace
from planner.trainers import all_trainers, trainer

JOB = ("--model", "qwen3-8b", "--seq", "32k", "--hw", "v5p-64", "--global-batch", "128")
LONGER = "published steps of Levanter took"


def test_the_pace_is_that_of_both_published_steps():
    """marin-community/marin#4510: 69 and 65 s, on which the step of docs/step.md takes a third less."""
    levanter = trainer("levanter")
    assert pace(levanter, "tpu") == pytest.approx(1.5, abs=0.3)
    assert pace(levanter, "gpu") is None
    assert {one.name for one in all_trainers() if one.measured} == {"levanter"}


def test_an_estimate_on_tpu_names_it(lcplan):
    answer = lcplan("estimate", *JOB, "--mesh", "fsdp=32", "--format", "json").json
    [note] = [one for one in answer["notes"] if LONGER in one]
    assert "the time is that of lcplan's own step" in note
    assert "69 s for qwen3-8b, 32k, tpu-v5p-64; 65 s for qwen3-32b, 32k, tpu-v5p-256" in note
    assert "github marin-community/marin#4510" in note


@pytest.mark.parametrize(("name", "stated"), [("levanter", True), ("maxtext", False)])
def test_a_search_for_the_trainer_states_its_step(lcplan, name, stated):
    answer = lcplan("search", *JOB, "--for", name, "--stages", "modelled", "--out", "run", "--format", "json").json
    notes = [one for one in answer["notes"] if LONGER in one]
    assert bool(notes) == stated
    if stated:
        [note] = notes
        assert 1.3 * answer["winner"]["best"]["step_s"] < float(note.split("so about ")[1].split()[0])


def test_an_estimate_on_gpu_has_no_such_note(lcplan):
    job = ("--model", "llama3-8b", "--seq", "8k", "--hw", "dgx-h100", "--mesh", "fsdp=8")
    assert not any(LONGER in one for one in lcplan("estimate", *job, "--format", "json").json["notes"])
