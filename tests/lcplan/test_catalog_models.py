"""Catalogue of models: published values, exact counts, and the ways of asking."""

import pytest

from lcplan.catalog import model, model_names
from lcplan.formats.errors import BadInputError

# Published counts: safetensors totals of the Hugging Face model pages, and keras-team/keras-hub's presets.
COUNTS = {
    "llama2-7b": 6738415616,
    "llama2-13b": 13015864320,
    "llama2-70b": 68976648192,
    "llama3-8b": 8030261248,
    "llama3-70b": 70553706496,
    "llama3.1-8b": 8030261248,
    "llama3.1-70b": 70553706496,
    "llama3.1-405b": 405853388800,
    "llama3.2-1b": 1235814400,
    "llama3.2-3b": 3212749824,
    "llama3.3-70b": 70553706496,
    "mistral-7b-v0.1": 7241732096,
    "mistral-7b-v0.3": 7248023552,
    "qwen2.5-0.5b": 494032768,
    "qwen2.5-1.5b": 1543714304,
    "qwen2.5-3b": 3085938688,
    "qwen2.5-7b": 7615616512,
    "qwen2.5-14b": 14770033664,
    "qwen2.5-32b": 32763876352,
    "qwen2.5-72b": 72706203648,
    "qwen3-0.6b": 596049920,
    "qwen3-1.7b": 1720574976,
    "qwen3-4b": 4022468096,
    "qwen3-8b": 8190735360,
    "qwen3-14b": 14768307200,
    "qwen3-32b": 32762123264,
    "qwen3-30b-a3b": 30532122624,
    "qwen3-235b-a22b": 235093634560,
    "mixtral-8x7b": 46702792704,
    "mixtral-8x22b": 140620634112,
    "gpt-oss-20b": 20914757184,
    "gpt-oss-120b": 116829156672,
    "deepseek-v3": 671026404352,
    "deepseek-moe-16b": 16375728128,
    "qwen1.5-moe-a2.7b": 14315784192,
    "llama4-scout": 107769861120,
    "gemma-2-9b": 9241705984,
    "gemma-2-27b": 27227128320,
    "gemma-3-1b": 999885952,
}
# What their authors say that a token meets: Qwen3 (arXiv:2505.09388), Mixtral (arXiv:2401.04088), DeepSeek-V3
# (arXiv:2412.19437), DeepSeekMoE (arXiv:2401.06066), and Qwen's, Meta's and OpenAI's model cards; OpenAI's figures leave the
# token embedding out.
ACTIVE = {
    "qwen3-30b-a3b": 3.3e9,
    "qwen3-235b-a22b": 22e9,
    "mixtral-8x7b": 13e9,
    "mixtral-8x22b": 39e9,
    "gpt-oss-20b": 3.6e9,
    "gpt-oss-120b": 5.1e9,
    "deepseek-v3": 37e9,
    "deepseek-moe-16b": 2.8e9,
    "qwen1.5-moe-a2.7b": 2.7e9,
    "llama4-scout": 17e9,
}
COUNTED_ONLY = {"llama4-scout"}
PRICED_ONLY = {"deepseek-v3", "gpt-oss-20b", "gpt-oss-120b", "gemma-2-9b", "gemma-2-27b", "gemma-3-1b"}
TINY = {"llama-tiny", "llama-tiny-odd", "mistral-tiny", "qwen2.5-tiny", "qwen3-tiny", "qwen3-moe-tiny"}


def test_every_model_is_counted_here():
    assert set(model_names()) == set(COUNTS) | TINY


@pytest.mark.parametrize("name", COUNTS)
def test_exact_parameter_counts(name):
    assert model(name).parameters == COUNTS[name]


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_published_models_name_their_source(name):
    spec = model(name)
    assert spec.name == name
    assert spec.source.startswith("Hugging Face ")
    assert spec.max_position is not None


@pytest.mark.parametrize("name", sorted(TINY))
def test_tiny_models_are_tiny_and_say_that_they_are_made_up(name):
    assert model(name).parameters < 5_000_000
    assert model(name).source.startswith("made up")


def test_tiny_models_cover_what_the_step_can_do():
    tiny = {name: model(name) for name in TINY}
    assert (tiny["llama-tiny"].heads, tiny["llama-tiny"].kv_heads) == (8, 4)
    assert (tiny["llama-tiny-odd"].heads, tiny["llama-tiny-odd"].group) == (15, 3)
    assert tiny["qwen3-tiny"].qk_norm
    assert tiny["qwen2.5-tiny"].qkv_bias
    assert tiny["mistral-tiny"].sliding_window == 64
    assert tiny["llama-tiny"].rope.scaling == "llama3"
    assert {spec.tied_embeddings for spec in tiny.values()} == {True, False}


def test_families_differ_as_published():
    assert model("qwen2.5-7b").qkv_bias
    assert not model("qwen2.5-7b").out_bias
    assert model("qwen3-8b").qk_norm
    assert model("mistral-7b-v0.1").sliding_window == 4096
    assert model("mistral-7b-v0.3").sliding_window is None
    assert model("llama3.2-1b").rope.factor == 32.0
    assert model("llama3-8b").rope.scaling == "none"
    assert (model("llama3-8b").max_position, model("llama3.1-8b").max_position) == (8192, 131072)


def test_names_are_found_in_any_case_and_with_spaces_around():
    assert model(" Llama3-8B ") == model("llama3-8b")


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("lama3-8b", "unknown model 'lama3-8b'; did you mean 'llama3-8b' or 'llama3.1-8b' or 'llama3-70b'?"),
        ("", "unknown model ''; known: deepseek-moe-16b, deepseek-v3, gemma-2-27b, "),
        ("zzz", "unknown model 'zzz'; known: deepseek-moe-16b, deepseek-v3, gemma-2-27b, "),
        ("a" * 5000, "unknown model 'aaaa"),
        ("a\0b", "unknown model 'a\\x00b'; known: "),
    ],
)
def test_an_unknown_name_shows_a_way_out(name, start):
    with pytest.raises(BadInputError) as error:
        model(name)
    message = str(error.value)
    assert message.startswith(start)
    assert message.endswith(
        "`lcplan catalog models` lists all; the path of a config.json, of a folder with one, or of a YAML spec works too"
    )
    assert len(message) < 500


@pytest.mark.parametrize("name", ["../models/llama3-8b", "models/llama3-8b", "./llama3-8b"])
def test_a_name_is_never_a_path_into_the_catalogue(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInputError, match="No such file or directory"):
        model(name)


def test_a_catalogue_name_wins_over_a_folder_of_that_name(tmp_path, monkeypatch):
    (tmp_path / "llama3-8b").mkdir()
    monkeypatch.chdir(tmp_path)
    assert model("llama3-8b").parameters == COUNTS["llama3-8b"]


def test_only_the_asked_file_is_read(monkeypatch):
    from lcplan.catalog import folder

    read = []
    original = folder.read_yaml
    monkeypatch.setattr(folder, "read_yaml", lambda path: read.append(path.name) or original(path))
    model("qwen3-8b")
    model_names()
    assert read == ["qwen3-8b.yaml"]


@pytest.mark.parametrize("name", sorted(ACTIVE))
def test_active_parameters_are_those_that_their_authors_state(name):
    spec = model(name)
    embedding = spec.vocab * spec.d_model if spec.family == "gpt_oss" else 0
    assert spec.active_parameters - embedding == pytest.approx(ACTIVE[name], rel=0.02)


def test_what_is_priced_but_not_built_says_what_the_step_lacks():
    assert {name for name in model_names() if model(name).not_built} - COUNTED_ONLY == PRICED_ONLY
    assert model("deepseek-v3").not_built == ("multi-head latent attention",)
    assert model("gpt-oss-20b").not_built == ("attention sinks", "biases of experts", "clamped gates")
    assert model("gemma-3-1b").not_built == (
        "norms after attention and feed-forward",
        "another RoPE in windowed layers",
        "scaled embeddings",
    )


def test_what_is_counted_but_not_planned_says_why():
    assert {name for name in model_names() if model(name).not_planned} == COUNTED_ONLY
