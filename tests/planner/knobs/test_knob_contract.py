"""What every knob keeps, whichever it is: the record is whole, and all that takes knobs takes it."""

import json

import click
import pytest

from lcplan.strategy import KNOBS, STEP_KNOBS, Mesh, Sampling, Strategy
from planner import api
from planner.cli.main import cli, run
from planner.explain.strategy_words import named_strategy
from planner.request.filters import Filters, wrong_values
from planner.run.run_read import read_run
from planner.what_if.vary import parse_vary

PARTS = {
    "train": ("--seq", "4k"),
    "sample": ("--prompt", "256", "--generate", "256", "--batch", "64"),
    "rl": ("--prompt", "256", "--generate", "256", "--batch", "64"),
}


def other(knob):
    """A value that is not the default."""
    if knob.is_number:
        return knob.default + 1 if knob.default < knob.most else knob.least
    return next(value for value in knob.values if value != knob.default)


@pytest.mark.parametrize("knob", KNOBS.values(), ids=KNOBS)
class TestKnob:
    def test_its_record_is_whole(self, knob):
        assert knob.help
        assert knob.workloads
        assert set(knob.workloads) <= set(PARTS)
        tried = {knob.default, *knob.grid, *knob.tuner, *(value for values in knob.grid_on.values() for value in values)}
        assert wrong_values({knob.name: tuple(tried)}) == []

    def test_it_is_an_option_a_filter_and_a_quantity(self, knob):
        for command in ("search", "estimate", "whatif"):
            found = cli.get_command(click.Context(cli), command)
            assert knob.option in {name for parameter in found.params for name in parameter.opts}
        assert knob.name in api.OPTIONS
        for name in (knob.name, *knob.aliases):
            assert getattr(Filters(**{name: (other(knob),)}), knob.name) == (other(knob),)
            [varied] = parse_vary((f"{name.replace('_', '-')}={other(knob)}",))
            assert (varied.quantity.json_name, varied.values) == (knob.name, (other(knob),))

    def test_plans_keep_it_and_labels_name_it(self, knob):
        mesh, value = Mesh(context=2, tensor=2), other(knob)
        made = Sampling(mesh=mesh) if knob.name not in STEP_KNOBS else Strategy(mesh=mesh)
        for name in (knob.name, *knob.aliases):
            changed = type(made).model_validate_json(json.dumps({"mesh": {"context": 2, "tensor": 2}, name: value}))
            assert changed.model_dump(mode="json")[knob.name] == value
        assert str(value) in changed.label or knob.shown is False

    def test_a_workload_takes_it_or_refuses_it(self, knob, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for kind, sizes in PARTS.items():
            request = ("--workload", kind, "--model", "llama3.2-1b", "--hw", "dgx-h100", "--mesh", "data=8", *sizes)
            code = run(["estimate", *request, knob.option, str(other(knob))])
            refused = f"--workload {kind} has no such knob" in capsys.readouterr().err
            assert refused == (kind not in knob.workloads)
            assert not refused or code == 2


def test_explain_takes_every_knob_of_a_train_step(finished_run):
    found = read_run(finished_run())
    for name, knob in STEP_KNOBS.items():
        for word in (name, *knob.aliases):
            assert named_strategy(f"f8 c2 {word}={other(knob)}", found).knob(name) == other(knob)
