"""Explain: where seconds go, what rests on what, why a strategy lost, what is amiss in an executable."""

import pytest

from cost_models.collectives.step import collectives
from cost_models.parts.time import STEP_TIME
from lcplan.evidence.measurement import Compiled
from lcplan.formats.errors import BadInputError
from lcplan.spec.collective import CollectiveUse
from planner.candidates.ranking import ties
from planner.explain.explanation import compare, explain
from planner.explain.inventory import inventory, trouble
from planner.explain.strategy_words import named_strategy
from planner.explain.traffic import exposures, transfers
from planner.explain.why import verdict
from planner.run.run_read import read_run
from planner.space.analysis import setting_of
from planner.workloads.pricing import price


@pytest.fixture
def run(finished_run):
    return read_run(finished_run())


def compiled_as_modelled(request, candidate, **changes):
    """Evidence whose collectives are those of the laws, so that a test can change one thing."""
    fields = {
        "rung": "compiled:target",
        "target": "h100",
        "jax": "0.10.1",
        "finished_at": "2026-01-01T00:00:00Z",
        "compile_s": 1.0,
        "total_bytes": candidate.estimate["memory_bytes"]["total"],
        "collectives": collectives(setting_of(request), candidate.strategy),
    }
    return candidate.with_compiled(Compiled(**(fields | changes)), request.budget_bytes)


def test_a_run_reads_back_as_it_was_written(run):
    assert run.winner == run.candidates[0]
    assert run.winner.estimate == price(run.request, run.winner.strategy).estimate
    assert run.space.enumerated > run.space.estimated > 0
    assert run.plan_file.name == "plan.yaml"


def test_a_plan_is_a_run_of_one(run):
    alone = read_run(run.plan_file)
    assert [candidate.strategy for candidate in alone.candidates] == [run.winner.strategy]
    assert explain(alone).verdict.reason == "won"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "not the result of an lcplan search"),
        ('{"schema_version": 99, "candidates": [], "space": {}}', "schema_version 99; this lcplan reads 1"),
        ('{"schema_version": 1, "candidates": [{}], "space": {}}', "not a whole result of an lcplan search"),
        ("{", "not valid JSON"),
    ],
)
def test_a_broken_run_is_refused(run, content, message):
    (run.path / "result.json").write_text(content)
    with pytest.raises(BadInputError, match=message):
        read_run(run.path)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(BadInputError, match=r"no result\.json in it"):
        read_run(tmp_path)
    with pytest.raises(BadInputError, match="no such file or folder"):
        read_run(tmp_path / "nowhere")


def test_transfers_are_the_laws_collectives_and_cover_what_is_exposed(run):
    for candidate in run.candidates:
        moved = transfers(setting_of(run.request), candidate)
        listed = collectives(setting_of(run.request), candidate.strategy)
        assert sum(transfer.calls for transfer in moved) == sum(use.calls for use in listed)
        assert sum(transfer.total_bytes for transfer in moved) == sum(use.total_bytes for use in listed)
        assert {transfer.part for transfer in moved} <= {part.key for part in STEP_TIME if part.purposes}
        for exposure in exposures(candidate, moved):
            assert exposure.exposed_s <= exposure.transfer_s * (1 + 1e-9)
            assert exposure.hidden_s == pytest.approx(exposure.transfer_s - exposure.exposed_s)


def test_links_say_which_axis_crosses_domains(run):
    strategy = named_strategy("fsdp=2,context=8 ring-zigzag", run)
    links = {t.axis: t.link for t in transfers(setting_of(run.request), price(run.request, strategy))}
    assert links["context"] == "nvlink4"
    assert links["fsdp+context"] == "ndr-infiniband"


def test_every_second_has_a_basis_and_shares_are_whole(run):
    found = explain(run)
    step = run.winner.estimate["step_s"]
    assert sum(one.seconds for one in found.bases) == pytest.approx(step)
    assert 0 < found.measured_share <= 1
    unmeasured = [one for one in found.bases if not one.measured and one.rates]
    assert all(any(not source.startswith("measured") for _, source in one.rates) for one in unmeasured)


def test_the_winner_is_explained_with_the_others_and_with_what_would_change_it(run):
    found = explain(run, price_usd_per_device_hour=2.0)
    assert found.verdict.reason == "won"
    assert [other.candidate.strategy for other in found.others] == [c.strategy for c in run.candidates[1:]]
    assert {other.reason for other in found.others} <= {"time", "tie"}
    assert all(other.slower_ratio >= (0 if other.reason == "time" else -0.2) for other in found.others)
    alike = {tie.strategy for tie in ties(list(run.candidates), run.request.objective)}
    assert {other.candidate.strategy for other in found.others if other.reason == "tie"} == alike
    assert {shift.quantity for shift in found.shifts} == {"seq", "hbm", "bandwidth"}
    hours = 1e9 * run.winner.strategy.devices / run.winner.best.tokens_per_s / 3600
    assert found.cost.device_hours == pytest.approx(hours)
    assert found.cost.price_usd == pytest.approx(2 * hours)
    assert found.cost.energy_kwh == pytest.approx(hours * 0.7)


def test_against_a_rule_says_every_rule(run):
    found = explain(run, named_strategy("context=6,tensor=2 ring", run))
    assert found.verdict.reason == "rule"
    assert any("state-shards" in line for line in found.verdict.says)
    assert any("sequence" in line for line in found.verdict.says)


def test_over_budget_says_by_how_much_and_what_would_fit(run):
    strategy = named_strategy("fsdp=8,context=2 ring-zigzag remat=none", run)
    candidate = price(run.request, strategy)
    assert not candidate.best.fits, "the case needs a strategy that does not fit"
    found = verdict(run.request, candidate, winner=run.winner)
    assert found.reason == "memory"
    assert "over the budget" in found.says[0]
    assert found.ways, "remat=full fits on this mesh"
    for way in found.ways:
        name, _, value = way.partition(":")[0].partition("=")
        if name == "remat":
            assert price(run.request, strategy.model_copy(update={name: value})).estimate["fits"]
    assert any(even.quantity == "budget" for even in found.break_evens) == any(
        "memory" in even.says for even in found.break_evens
    )


def test_slower_names_the_terms_and_a_break_even_is_true(run):
    strategy = named_strategy("context=16 ring", run)
    found = explain(run, strategy).verdict
    assert found.reason == "time"
    assert found.slower_ratio > 0
    assert found.terms[0].more == max(term.more for term in found.terms) > 0
    total = sum(term.more for term in found.terms)
    assert total == pytest.approx(found.candidate.estimate["step_s"] - run.winner.estimate["step_s"])


def test_a_failed_compile_is_the_reason(finished_run):
    def fails(candidate):
        broken = Compiled(
            rung="compiled:target",
            target="h100",
            jax="0.10.1",
            finished_at="2026-01-01T00:00:00Z",
            compile_s=1.0,
            error="out of memory",
        )
        return candidate.with_compiled(broken, 1) if candidate.strategy.scheme == "ulysses" else candidate

    run = read_run(finished_run(evidence=fails))
    failed = next(candidate for candidate in run.candidates if not candidate.usable)
    found = explain(run, failed.strategy)
    assert found.verdict.reason == "failed"
    assert "out of memory" in found.verdict.says[0]
    assert found.trouble[0] == "the compile failed: out of memory"


def test_an_executable_as_modelled_is_no_trouble(run):
    candidate = compiled_as_modelled(run.request, run.winner)
    lines = inventory(candidate, transfers(setting_of(run.request), candidate))
    assert {line.verdict for line in lines} <= {"as modelled", "small"}
    assert trouble(candidate, lines) == ()


def test_an_unexpected_collective_and_a_warning_are_surfaced(run):
    stray = CollectiveUse(op="all-gather", axis="context", bytes=2**30, calls=32, backend="nccl")
    listed = collectives(setting_of(run.request), run.winner.strategy)
    candidate = compiled_as_modelled(
        run.request,
        run.winner,
        collectives=(*(use for use in listed if use.axis != "context" or use.op != "all-gather"), stray),
        warnings=("Involuntary full rematerialization of fusion.3", "backend=nvshmem was asked for, but permutes go by nccl"),
    )
    lines = inventory(candidate, transfers(setting_of(run.request), candidate))
    said = trouble(candidate, lines)
    assert said[0].startswith("Involuntary full rematerialization")
    assert said[1].startswith("backend=nvshmem was asked for")
    assert any("all-gather over context" in line and "32.0 GiB" in line for line in said[2:])


def test_a_missing_and_a_larger_collective_are_surfaced(run):
    listed = collectives(setting_of(run.request), run.winner.strategy)
    largest = max(listed, key=lambda use: use.total_bytes)
    doubled = [use.model_copy(update={"calls": 2 * use.calls}) if use is largest else use for use in listed]
    for changed, verdicts in ((doubled, {"more"}), ([use for use in listed if use.op != largest.op], {"not found"})):
        candidate = compiled_as_modelled(run.request, run.winner, collectives=tuple(changed))
        lines = inventory(candidate, transfers(setting_of(run.request), candidate))
        assert verdicts <= {line.verdict for line in lines}
        assert any(largest.op in line for line in trouble(candidate, lines))


def test_two_strategies_term_by_term(run):
    found = compare(run, first=run.candidates[0].strategy, second=run.candidates[-1].strategy)
    for terms, key in ((found.memory, "memory_bytes"), (found.time, "time_s")):
        first, second = (one.candidate.estimate[key] for one in (found.first, found.second))
        assert sum(term.more for term in terms) == pytest.approx(
            sum(v for k, v in second.items() if k != "total") - sum(v for k, v in first.items() if k != "total")
        )
        assert [term.more for term in terms] == sorted((term.more for term in terms), reverse=True)


def test_names(run):
    assert named_strategy("2", run) == run.candidates[1].strategy
    assert named_strategy(run.candidates[2].strategy.label, run).mesh == run.candidates[2].strategy.mesh
    made = named_strategy("fsdp=4,tensor=4 remat=none moments-dtype=bf16", run)
    assert (made.mesh.fsdp, made.mesh.tensor, made.remat, made.moments_dtype) == (4, 4, "save-all", "bf16")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("99", "strategy 99: the run has candidates 1 to 6"),
        ("contxt=8", "unknown axis 'contxt'; did you mean 'context'"),
        ("context=8 rong", "unknown word 'rong'; did you mean 'ring'"),
        ("context=2..8", "give one size for each axis"),
        ("context=8 remat=everything", "strategy: remat"),
    ],
)
def test_bad_names_say_what_is_wrong(run, text, message):
    with pytest.raises(BadInputError, match=message):
        named_strategy(text, run)
