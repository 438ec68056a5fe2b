import numpy as np
import pytest
from made import data, row

from cost_models.inputs.constants import fitted_on, published_constants
from lcplan.formats.errors import BadInputError
from planner.validate.run import validate
from planner.validate.sources.bundled import find_table, table_names
from planner.validate.sources.read import table_of
from planner.validate.trials import CHOSEN_BY, Trials

MESH = {"data": 1, "fsdp": 8, "context": 1, "tensor": 1, "expert": 1, "pipe": 1}


def run(tmp_path, *rows, **head):
    return validate(table_of(data(*rows, **head), "t"), tmp_path)


def test_a_table_of_the_laws_own_predictions_has_no_error(tmp_path):
    first = run(tmp_path, row(id="a"), row(id="b", workload={"global_batch": 16}))
    measured = [
        {"step_s": r.predicted["step_s"], "peak_bytes": r.predicted["peak_bytes"], "fits": r.predicted["fits"]}
        for r in first.rows
    ]
    again = run(tmp_path, row(id="a", measured=measured[0]), row(id="b", workload={"global_batch": 16}, measured=measured[1]))
    assert all(entry.mean_abs_error_ratio == pytest.approx(0.0) for entry in again.summary.values())
    assert again.fitted == ()
    assert again.summary["step_s"].leave_one_out_ratio is None


def test_the_choice_is_one_for_the_whole_table_and_counts(tmp_path):
    truth = run(tmp_path, *(row(id=str(b), workload={"global_batch": b}, strategy={"remat": "save-qkv"}) for b in (8, 16, 32)))
    seen = [r.predicted["step_s"] for r in truth.rows]
    rows = [
        row(id=str(b), workload={"global_batch": b}, strategy={"remat": None}, measured={"step_s": step})
        for b, step in zip((8, 16, 32), seen, strict=True)
    ]
    result = run(tmp_path, *rows)
    assert [r.chosen["remat"] for r in result.rows] == ["save-qkv"] * 3
    assert [(entry.name, entry.value, entry.kind) for entry in result.fitted] == [("remat", "save-qkv", "choice")]
    assert result.summary["step_s"].leave_one_out_ratio == pytest.approx(0.0)


def test_leave_one_out_chooses_without_the_row():
    trials = Trials(facts=(None,) * 3, trials=(None,) * 2)
    errors = np.full((2, 3, len(CHOSEN_BY)), np.nan)
    errors[0, :, 0], errors[1, :, 0] = [0.0, 0.0, 0.9], [0.5, 0.1, 0.0]
    trials.__dict__["errors"] = errors  # in place of the cached property
    trials.__dict__["unfit"] = np.zeros((2, 3), dtype=bool)
    # without row 0 the others say trial 1 (0.1 against 0.9), without row 1 likewise (0.5 against 0.9), without row 2 trial 0
    assert trials.left_out()[:, 0].tolist() == [0.5, 0.1, 0.9]


def test_the_unknown_convention_is_chosen_only_where_rates_are_stated(tmp_path):
    rates = run(tmp_path, row(measured={"tflop_per_s_per_device": 400.0}), flop_convention="unknown")
    assert [entry.name for entry in rates.fitted] == ["flop_convention"]
    assert "flop_convention" in rates.rows[0].chosen
    assert run(tmp_path, row(), flop_convention="unknown").fitted == ()


def test_conventions_order_as_they_count(tmp_path):
    found = {}
    for name in ("model", "full-attention", "hardware"):
        result = run(tmp_path, row(measured={"tflop_per_s_per_device": 400.0}), flop_convention=name)
        found[name] = result.rows[0].predicted["tflop_per_s_per_device"]
    assert found["model"] < found["full-attention"]
    assert found["model"] < found["hardware"]


def test_memory_figures_order_as_they_count(tmp_path):
    names = ("executable", "allocated", "reserved", "device")
    peaks = [
        run(tmp_path, row(measured={"peak_bytes": 1e10}), memory_figure=name).rows[0].predicted["peak_bytes"] for name in names
    ]
    assert peaks[0] == peaks[1] < peaks[2] < peaks[3]


def test_pairs_are_ratios_of_what_both_rows_state(tmp_path):
    rows = [
        row(id="a", measured={"step_s": 3.0, "peak_bytes": 1.0}),
        row(id="b", measured={"step_s": 2.0}),
        row(id="c", mesh=MESH | {"pipe": 2}),
    ]
    pairs = [["a", "b"], {"a": "b", "b": "a", "quantity": "tokens_per_s_per_device", "measured_ratio": 1.4}, ["a", "c"]]
    result = run(tmp_path, *rows, pairs=pairs)
    first, stated, excused = result.pairs
    assert (first.quantity, first.measured_ratio, first.predicted_ratio) == ("step_s", 1.5, pytest.approx(1.0))
    assert (stated.measured_ratio, stated.predicted_ratio) == (1.4, pytest.approx(1.0))
    assert excused.predicted_ratio is None


def test_a_row_without_measurements_is_modelled_and_has_no_error(tmp_path):
    result = run(tmp_path, row(measured={}))
    assert result.modelled == 1
    assert result.summary == {}


def test_all_slips_of_a_table_are_told_at_once(tmp_path):
    with pytest.raises(BadInputError) as error:
        run(tmp_path, row(id="a", hardware="dgx-h1000"), row(id="b", program="nope"))
    assert len(error.value.problems) == 2
    assert all(problem.startswith("table made: ") for problem in error.value.problems)


def test_rows_priced_together_equal_rows_priced_alone(tmp_path):
    meshes = [MESH, MESH | {"fsdp": 4, "tensor": 2}, MESH | {"fsdp": 1, "data": 8}]
    rows = [row(id=str(i), mesh=m) for i, m in enumerate(meshes)]
    together = [r.predicted for r in run(tmp_path, *rows).rows]
    assert together == [run(tmp_path, one).rows[0].predicted for one in rows]


def test_attention_parts_add_up(tmp_path):
    workload = {"seq_len": 65536, "global_batch": 1}
    mesh = MESH | {"fsdp": 1, "context": 8}
    parts = ("attention", "attention-forward", "attention-backward")
    rows = [row(id=p, mesh=mesh, workload=workload | {"part": p}, strategy={"scheme": "ring"}) for p in parts]
    whole, forward, backward = (r.predicted["step_s"] for r in run(tmp_path, *rows).rows)
    assert whole == pytest.approx(forward + backward)
    assert backward > forward


def test_layer_parts_are_within_a_step(tmp_path):
    one = {"base": "llama3-8b", "layers": 1}
    rows = [row(id=p, model=one, workload={"part": p}) for p in ("step", "layer-forward", "layer-backward")]
    step, forward, backward = (r.predicted["step_s"] for r in run(tmp_path, *rows).rows)
    assert forward + backward < step
    assert backward > 2 * forward


@pytest.fixture(scope="module")
def seed():
    table, path = find_table("seed-s1-gb200-nvshmem")
    return validate(table, path.parent)


def test_the_seeds_table_is_within_its_bars(seed):
    entry = seed.summary["tflop_per_s_per_device"]
    assert entry.rows == 16
    assert entry.mean_abs_error_ratio <= 0.03
    assert abs(entry.worst_error_ratio) <= 0.08
    assert entry.leave_one_out_ratio is not None
    assert entry.leave_one_out_ratio <= 0.06


def test_nvshmems_gains_are_within_five_points(seed):
    assert len(seed.pairs) == 8
    assert all(abs(pair.predicted_ratio - pair.measured_ratio) <= 0.05 for pair in seed.pairs)


def test_no_more_than_four_freedoms_were_used_on_the_seeds_table(seed):
    names = [entry.name for entry in seed.fitted]
    assert len(names) <= 4
    assert {"remat", "global_batch", "flop_convention"} <= set(names)  # its source leaves these open
    for entry in seed.fitted:
        assert entry.kind in {"constant", "choice"}


def test_every_constant_says_on_what_it_was_fitted_and_lies_in_its_range():
    known = [entry for name in table_names() for entry in fitted_on(name)]
    values = vars(published_constants())
    assert {entry.name for entry in known} == set(values)
    for entry in known:
        assert entry.low <= entry.value == values[entry.name] <= entry.high
        assert entry.unit
        assert entry.source


def test_every_row_of_every_bundled_table_is_modelled_or_excused():
    rows = modelled = 0
    for name in table_names():
        table, path = find_table(name)
        result = validate(table, path.parent)
        assert [r.id for r in result.rows] == [r.id for r in table.rows]
        assert sum(result.excuses.values()) + result.modelled == len(table.rows)
        predictions = [v for r in result.rows for v in r.predicted.values()]
        assert np.isfinite(predictions).all()
        rows, modelled = rows + len(table.rows), modelled + result.modelled
    assert modelled >= 300
    assert rows > 3000


def test_what_a_tables_writer_decided_counts_as_fitted(tmp_path):
    result = run(tmp_path, row(), interpreted=["the network is 100 Gb/s a GPU"])
    assert [(entry.name, entry.kind) for entry in result.fitted] == [("the network is 100 Gb/s a GPU", "interpretation")]


def test_a_choice_under_which_rows_that_ran_do_not_fit_is_not_taken(tmp_path):
    kept = row(id="a", workload={"seq_len": 65536}, strategy={"remat": "save-all"})
    seen = run(tmp_path, kept).rows[0].predicted
    assert not seen["fits"]
    silent = {**kept, "strategy": kept["strategy"] | {"remat": None}, "measured": {"step_s": seen["step_s"]}}
    ran, lost = (run(tmp_path, silent | {"measured": silent["measured"] | more}).rows[0] for more in ({}, {"fits": False}))
    assert ran.predicted["fits"]
    assert ran.chosen["remat"] != "save-all"
    assert lost.chosen["remat"] == "save-all"  # it ran out of memory, so that nothing speaks against the nearest time


def test_one_option_is_no_fitted_choice(tmp_path):
    result = run(tmp_path, row(id="a", strategy={"backend": None}))
    assert (result.rows[0].chosen, result.fitted) == ({"backend": "nccl"}, ())
