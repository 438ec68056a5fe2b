"""Faults of a kind in every file that lcplan reads: quoted booleans, numbers of thousands of digits, 100,000 unknown keys."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from documents import ACCELERATE, DEEPSPEED, HARDWARE, MAXTEXT, MEGATRON, MODEL, OWN_MODEL, TABLE, TORCHTITAN
from test_fuzz_inputs import FILES

from lcplan.formats.errors import BadInputError
from planner.cli.main import run
from planner.trainers.registry import reader

SPELT = {True: ("true", '"true"', "'True'", "1"), False: ("false", '"false"', "'False'", "0")}


def _with(document, key, value):
    section, _, name = key.rpartition(".")
    return {**document, section: {**(document.get(section) or {}), name: value}} if section else {**document, name: value}


def _yaml(document, key, text):
    """Write the document with ``section.key`` set to the YAML ``text``."""
    return yaml.safe_dump(_with(document, key, "HERE")).replace("HERE", text)


def _json(document, key, text):
    return json.dumps(_with(document, key, "HERE")).replace('"HERE"', text.replace("'", '"'))


def _toml(document, key, text):
    section, _, name = key.rpartition(".")
    line = f"{name} = {text.replace('True', 'true').replace('False', 'false')}\n"
    return (
        document.replace(f"[{section}]\n", f"[{section}]\n{line}")
        if f"[{section}]" in document
        else f"{document}[{section}]\n{line}"
    )


def _shell(document, key, text):
    return f"{document.rstrip()} --{key} {text}\n"


KEYS = [
    *(("accelerate.yaml", _yaml, ACCELERATE, f"fsdp_config.{key}") for key in (
        "fsdp_offload_params", "fsdp_activation_checkpointing", "fsdp_reshard_after_forward",
    )),
    *(("deepspeed.json", _json, {**DEEPSPEED, "zero_optimization": {"stage": 3}}, key) for key in (
        "bf16.enabled", "bf16.bf16_master_weights_and_grads", "zero_optimization.overlap_comm",
    )),
    *(("torchtitan.toml", _toml, TORCHTITAN, key) for key in ("training.enable_cpu_offload", "compile.enable")),
    *(("maxtext.yml", _yaml, MAXTEXT, key) for key in ("packing", "scan_layers", "sparse_matmul", "enable_dropout")),
    *(("megatron.sh", _shell, MEGATRON.replace("--use-distributed-optimizer", ""), key) for key in (
        "use-distributed-optimizer", "untie-embeddings-and-output-weights",
    )),
]  # fmt: skip


def _read(name, text, folder):
    file = folder / name
    file.write_text(text)
    found = reader(name.partition(".")[0])(str(file), 8)
    return found.options, found.program, found.notes, found.whole_weights


@pytest.mark.parametrize(("name", "write", "document", "key"), KEYS, ids=[f"{case[0]}-{case[3]}" for case in KEYS])
def test_a_quoted_boolean_is_what_it_spells(name, write, document, key, tmp_path):
    for plain, *others in SPELT.values():
        expected = _read(name, write(document, key, plain), tmp_path)
        for text in others[: 2 if name == "megatron.sh" else 3]:
            assert _read(name, write(document, key, text), tmp_path) == expected, text


@pytest.mark.parametrize(("name", "write", "document", "key"), KEYS[:-2], ids=[f"{c[0]}-{c[3]}" for c in KEYS[:-2]])
def test_a_word_that_is_no_boolean_is_refused(name, write, document, key, tmp_path):
    with pytest.raises(BadInputError, match=key.rpartition(".")[2]):
        _read(name, write(document, key, "'perhaps'"), tmp_path)


DIGITS = "9" * 5000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", json.dumps(MODEL).replace("256", DIGITS)),
        ("model.yaml", yaml.safe_dump(OWN_MODEL).replace("3", DIGITS)),
        ("hardware.yaml", yaml.safe_dump(HARDWARE).replace("80GiB", DIGITS)),
        ("table.yaml", yaml.safe_dump(TABLE).replace("8192", DIGITS)),
        ("maxtext.yml", yaml.safe_dump(MAXTEXT).replace("8192", DIGITS)),
        ("torchtitan.toml", TORCHTITAN.replace("8192", DIGITS)),
        ("torchtitan.toml", TORCHTITAN + "deep = " + "[" * 3000 + "]" * 3000),
        ("megatron.sh", MEGATRON.replace("8192", DIGITS)),
        ("deepspeed.json", json.dumps(DEEPSPEED).replace("8", DIGITS)),
        ("accelerate.yaml", yaml.safe_dump(ACCELERATE).replace("8", DIGITS)),
    ],
    ids=lambda value: value[:20] if "." in value[:20] else "",
)
def test_a_number_of_thousands_of_digits_is_bad_input(name, text, tmp_path, capsys):
    file = tmp_path / name
    file.write_text(text)
    assert run([*map(str, FILES[name][1](file))]) == 2
    assert "a fault of lcplan" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["accelerate.yaml", "maxtext.yml", "model.yaml", "hardware.yaml", "table.yaml"])
@pytest.mark.parametrize("key", ["0E0", "true", "null", "2026-01-01"])
def test_keys_that_are_no_text_are_no_fault(name, key, tmp_path, capsys):
    document = {"accelerate.yaml": ACCELERATE, "maxtext.yml": MAXTEXT, "model.yaml": OWN_MODEL, "hardware.yaml": HARDWARE}
    file = tmp_path / name
    file.write_text(f"{key}: true\n{yaml.safe_dump(document.get(name, TABLE))}")
    assert run([*map(str, FILES[name][1](file))]) == 2
    assert "a fault of lcplan" not in capsys.readouterr().err


def _documents(count):
    unknown = {f"strange_{number}": number for number in range(count)}
    return {
        "config.json": json.dumps(MODEL | unknown),
        "model.yaml": json.dumps(OWN_MODEL | unknown),
        "hardware.yaml": json.dumps(HARDWARE | unknown),
        "table.yaml": json.dumps(TABLE | unknown),
        "maxtext.yml": json.dumps(MAXTEXT | unknown),
        "torchtitan.toml": TORCHTITAN + "[training2]\n" + "".join(f"{key} = 1\n" for key in unknown),
        "megatron.sh": MEGATRON + " ".join(f"--{key.replace('_', '-')} 1" for key in unknown),
        "deepspeed.json": json.dumps(DEEPSPEED | unknown),
        "accelerate.yaml": json.dumps(ACCELERATE | unknown),
    }


def _are_said_shortly(name, count, tmp_path, capsys):
    file = tmp_path / name
    file.write_text(_documents(count)[name])
    begun = time.process_time()
    code = run([*map(str, FILES[name][1](file))])
    seconds = time.process_time() - begun
    said = capsys.readouterr()
    assert code in (0, 2)
    assert len(said.out) + len(said.err) < 20_000
    assert seconds < 10 * float(os.environ.get("LCPLAN_SLOWNESS", "3"))


@pytest.mark.parametrize("name", sorted(_documents(0)))
def test_thousands_of_unknown_keys_are_said_shortly(name, tmp_path, capsys):
    _are_said_shortly(name, 3_000, tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(_documents(0)))
def test_a_hundred_thousand_unknown_keys_are_said_shortly(name, tmp_path, capsys):
    _are_said_shortly(name, 100_000, tmp_path, capsys)
