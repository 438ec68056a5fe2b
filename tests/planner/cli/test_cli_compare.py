"""``lcplan estimate`` of several sharding modes and scheduler presets: documents, refusals, and the real executables."""

import pytest

SMALL = ("estimate", "--model", "model.yaml", "--seq", "512", "--hw", "cpu-host", "--mesh", "context=2,tensor=2")
MODEL = "{name: tiny, layers: 2, d_model: 64, d_ff: 96, heads: 4, kv_heads: 2, head_dim: 16, vocab: 128}\n"
LARGE = ("estimate", "--model", "llama3-8b", "--seq", "64k", "--hw", "dgx-h100", "--mesh", "context=8")


def test_one_mode_keeps_the_document_of_one_candidate(lcplan):
    document = lcplan(*LARGE, "--sharding-mode", "auto", "--format", "json").json
    assert document["candidate"]["strategy"]["sharding_mode"] == "auto"
    assert "candidates" not in document
    assert (
        "sharding_mode=auto: the estimate is that of the manual step; only a compile shows the difference" in document["notes"]
    )


def test_several_stand_in_the_order_asked_and_are_priced_alike(lcplan):
    answer = lcplan(*LARGE, "--sharding-mode", "explicit,manual", "--scheduler", "combined,default", "--format", "json")
    found = answer.json["candidates"]
    ways = [(one["strategy"]["sharding_mode"], one["strategy"]["scheduler"]) for one in found]
    assert ways == [("explicit", "combined"), ("explicit", "default"), ("manual", "combined"), ("manual", "default")]
    assert len({one["estimate"]["step_s"] for one in found}) == 1


def test_csv_has_a_row_each(lcplan):
    rows = lcplan(*LARGE, "--sharding-mode", "auto,manual", "--format", "csv").out.splitlines()
    assert len(rows) == 3
    assert "sharding_mode,scheduler" in rows[0]


def test_a_preset_without_flags_is_refused_by_name(lcplan):
    answer = lcplan("estimate", "--model", "llama3-8b", "--seq", "8k", "--hw", "tpu-v5p-8", "--scheduler", "pipelined")
    assert answer.code == 2
    assert "--scheduler pipelined: it has no flags for tpu; there are default, latency-hiding, no-latency-hiding" in answer.err


def test_an_unknown_mode_names_the_nearest(lcplan):
    answer = lcplan(*LARGE, "--sharding-mode", "explicitly")
    assert answer.code == 2
    assert "--sharding-mode: unknown value 'explicitly'" in answer.err
    assert "explicit" in answer.err


def test_search_keeps_to_the_manual_step_unless_asked(lcplan):
    search = ("search", "--model", "llama3-8b", "--seq", "64k", "--hw", "dgx-h100", "--stages", "modelled", "--format", "json")
    plain, wide = lcplan(*search, "--out", "a").json, lcplan(*search, "--out", "b", "--sharding-mode", "auto,manual").json
    assert {one["strategy"]["sharding_mode"] for one in plain["candidates"]} == {"manual"}
    assert wide["space"]["estimated"] == 2 * plain["space"]["estimated"]
    first, second = wide["candidates"][:2]
    assert {one["strategy"]["sharding_mode"] for one in (first, second)} == {"auto", "manual"}  # a leader and its sibling


@pytest.mark.slow
def test_three_executables_side_by_side(lcplan, tmp_path):
    (tmp_path / "model.yaml").write_text(MODEL)
    answer = lcplan(*SMALL, "--devices", "4", "--sharding-mode", "auto,explicit,manual", "--compile")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    heads = next(line.split() for line in lines if line.split()[-1:] == ["laws"])
    assert heads == ["auto", "explicit", "manual", "laws"]
    permutes = next(line for line in lines if line.startswith("collective-permute context"))
    cells = permutes.removeprefix("collective-permute context").replace(") ", ")|").split("|")
    assert len({cell.strip() for cell in cells[:3]}) == 1  # the law counts bf16, which the host widens
