"""What a candidate is worth on each rung, and in which order candidates stand."""

from dataclasses import replace

import pytest

from lcplan.evidence.measurement import Compiled, Timed
from lcplan.strategy import Mesh, Strategy
from planner.candidates.candidate import Candidate
from planner.candidates.ranking import objective_value, rank

ESTIMATE = {"step_s": 2.0, "tokens_per_s": 500.0, "memory_bytes": {"total": 100}, "allowance_bytes": 10, "fits": True}


def _candidate(devices=8, **estimate):
    return Candidate(strategy=Strategy(mesh=Mesh(context=devices)), estimate=ESTIMATE | estimate)


def _compiled(total=None, error=None):
    common = {"rung": "compiled:target", "target": "gb200", "jax": "0.10.1", "finished_at": "2026-01-01T00:00:00+00:00"}
    return Compiled(**common, compile_s=1.0, total_bytes=total, error=error)


def _timed(step=None, error=None):
    common = {"rung": "timed:full", "device": "cpu", "jax": "0.10.1", "finished_at": "2026-01-01T00:00:00+00:00"}
    return Timed(**common, step_s=step, error=error)


def test_modelled_until_something_better_is_known():
    unsure = {"time_ratio": 0.25, "memory_ratio": 0.04}
    assert _candidate(uncertainty=unsure).best.to_json() == {
        "rung": "modelled",
        "step_s": 2.0,
        "step_s_low": 1.6,
        "step_s_high": 2.5,
        "tokens_per_s": 500.0,
        "memory_bytes": 100,
        "memory_bytes_low": 96,
        "memory_bytes_high": 104,
        "fits": True,
    }


def test_what_was_compiled_or_timed_replaces_the_half_width_too():
    candidate = _candidate(uncertainty={"time_ratio": 0.25, "memory_ratio": 0.04}).with_compiled(_compiled(150), 200)
    assert (candidate.best.time_ratio, candidate.best.memory_ratio) == (0.25, 0.0)
    timed = candidate.with_timed(_timed(4.0).model_copy(update={"samples": (3.2, 4.0, 4.4)}))
    assert timed.best.time_ratio == pytest.approx(0.25), "4 / 3.2 is further than 4.4 / 4"
    host = _candidate(uncertainty={"memory_ratio": 0.04}).with_compiled(
        _compiled(150).model_copy(update={"rung": "compiled:host"}), 200
    )
    assert host.best.memory_ratio == 0.04, "a host's compiler says little about another device"


@pytest.mark.parametrize(("total", "fits"), [(190, True), (191, False)])
def test_compiled_memory_with_the_allowance_decides_at_the_byte(total, fits):
    candidate = _candidate().with_compiled(_compiled(total), 200)
    assert candidate.compiled is not None
    assert candidate.compiled.fits is fits
    assert candidate.best.fits is fits
    assert candidate.best.rung == "compiled:target"
    assert candidate.estimate["fits"] is True, "the prediction stays as it was"


def test_memory_compiled_for_host_devices_rejects_nothing():
    host = _compiled(220).model_copy(update={"rung": "compiled:host"})
    candidate = _candidate().with_compiled(host, 176)
    assert candidate.compiled is not None
    assert candidate.compiled.fits is None
    assert candidate.best.to_json() == _candidate().best.to_json()
    over = _candidate(fits=False).with_compiled(host.model_copy(update={"total_bytes": 1}), 176)
    assert over.best.fits is False, "and it makes nothing fit"


def test_timed_seconds_replace_modelled_ones():
    candidate = _candidate().with_compiled(_compiled(150), 200).with_timed(_timed(4.0))
    assert candidate.best.step_s == 4.0
    assert candidate.best.tokens_per_s == 250.0
    assert candidate.best.memory_bytes == 150
    assert candidate.best.rung == "timed:full"
    assert candidate.estimate["step_s"] == 2.0


def test_order_fits_then_over_budget_then_failed():
    good, better = _candidate(), _candidate(16, step_s=0.5, tokens_per_s=2000.0)
    over = _candidate(step_s=0.4, tokens_per_s=2500.0).with_compiled(_compiled(500), 200)
    failed = _candidate(step_s=0.1, tokens_per_s=9000.0).with_compiled(_compiled(error="aborted"), 200)
    assert rank([failed, over, good, better], "tokens_per_s") == [better, good, over, failed]
    assert rank([failed, over, good, better], "tokens_per_s_per_device") == [better, good, over, failed]


@pytest.mark.parametrize(("objective", "value"), [("tokens_per_s", 500.0), ("tokens_per_s_per_device", 62.5), ("step_s", -2.0)])
def test_objectives(objective, value):
    assert objective_value(_candidate(), objective) == value


def test_a_failed_timing_does_not_win():
    failed = replace(_candidate(), timed=_timed(error="loss is nan"))
    assert not failed.best.fits
    assert not failed.usable


def test_a_timed_candidate_stands_before_one_that_only_promises():
    slow = _candidate().with_compiled(_compiled(150), 200).with_timed(_timed(4.0))
    promising = _candidate(16, step_s=0.5, tokens_per_s=2000.0).with_compiled(_compiled(150), 200)
    assert rank([promising, slow], "tokens_per_s") == [slow, promising]
