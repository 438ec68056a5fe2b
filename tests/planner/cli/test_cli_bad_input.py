"""Bad input: exit 2, a clear message with a way out on stderr, no traceback, nothing on stdout, nothing written."""

import json
from pathlib import Path

import pytest

SEARCH = ("search", "--model", "llama3-8b", "--seq", "256k", "--hw", "gb200-nvl72", "--stages", "modelled")
ESTIMATE = ("estimate", "--model", "llama3-8b", "--seq", "256k", "--hw", "gb200-nvl72")

SAMPLE = (
    *("search", "--model", "qwen3-1.7b", "--hw", "tpu-v4-32", "--stages", "modelled"),
    *("--workload", "sample", "--prompt", "256", "--generate", "256", "--batch", "16"),
)


def _with(arguments, **changes):
    changed = list(arguments)
    for option, value in changes.items():
        flag = "--" + option.replace("_", "-")
        if flag in changed:
            changed[changed.index(flag) + 1] = value
        else:
            changed += [flag, value]
    return changed


CASES = [
    (_with(SEARCH, model="lama3-8b"), "lama3-8b", "llama3-8b"),
    (_with(SEARCH, hw="gb200-nvl27"), "gb200-nvl27", "gb200-nvl72"),
    (_with(SEARCH, seq="0"), "--seq '0' is not above zero", "256k"),
    (_with(SEARCH, seq="-5"), "above zero", "256k"),
    (_with(SEARCH, seq="256q"), "256q", "256k"),
    (_with(SEARCH, document_len="0"), "--document-len '0' is not above zero", "256k"),
    (_with(SEARCH, document_len="1.5"), "--document-len '1.5' is not a whole number", "256k"),
    (_with(ESTIMATE, document_len="512k"), "--document-len 524288: sequences of 262144 tokens", "at most --seq"),
    (_with(SEARCH, budget="-3"), "-3", "80GiB"),
    (_with(SEARCH, budget="lots"), "lots", "80GiB"),
    (_with(SEARCH, devices="0"), "--devices", "x>=1"),
    (_with(SEARCH, devices="73"), "devices=73", "gb200-nvl72x2"),
    (_with(SEARCH, global_batch="0"), "--global-batch", "x>=1"),
    (_with(SEARCH, scheme="rign"), "rign", "ring"),
    (_with(SEARCH, remat="ful"), "ful", "full"),
    (_with(SEARCH, backend="ici"), "--backend ici: gb200-nvl72 has", "nccl"),
    (_with(SEARCH, mesh="contxt=8"), "contxt", "context"),
    (_with(SEARCH, study="ftp://x"), "ftp://x", "sqlite:///FILE"),
    (_with(SEARCH, study=""), "study '' is no storage", "sqlite:///FILE"),
    (_with(SEARCH, toolchain="no/such/python"), "no/such/python", "path of an executable"),
    (_with(SEARCH, tune="many"), "--tune 'many' is no budget", "5min"),
    (
        _with(SEARCH, offload_percent="101"),
        "--offload-percent: '101' is not a whole number above zero, at most 100",
        "whole number",
    ),
    (_with(ESTIMATE, mesh="context=8", offload_percent="50"), "remat=full offloads nothing", "use one of offload-layer-in"),
    (_with(SEARCH, attention_block="-1"), "--attention-block: '-1' is not a whole number", "whole number"),
    (_with(ESTIMATE, mesh="context=8", attention_block="256"), "kernel cudnn chooses its own tiles", "attention_block=0"),
    (_with(SAMPLE, tune="5"), "--tune with --workload sample", "--workload train"),
    (_with(SEARCH, seq="9000000m"), "seq_len: Input should be less than or equal to 1099511627776", "(got 9437184000000)"),
    (_with(SEARCH, global_batch="1099511627777"), "global_batch: Input should be less than or equal to", "1099511627776"),
    (
        _with(SEARCH, ulysses="2097152"),
        "--ulysses: '2097152' is not a whole number above zero, at most 1048576",
        "at most 1048576",
    ),
    (
        _with(SEARCH, attention_block="131072"),
        "--attention-block: '131072' is not a whole number, at most 65536",
        "at most 65536",
    ),
    (_with(SEARCH, mesh="fsdp=2097152"), "fsdp='2097152': not a whole number above zero", "at most 1048576"),
    (_with(SEARCH, microbatches="0"), "microbatches", "whole number above zero"),
    (_with(ESTIMATE, mesh="context=7"), "context=7 does not divide seq_len=262144", "use 2, 4, 8 or 16"),
    (_with(ESTIMATE, mesh="context=16,tensor=64"), "takes 1024 devices", "has 72"),
    (_with(ESTIMATE, mesh="context=8..16"), "--mesh context: estimate prices one strategy", "one size"),
    (_with(ESTIMATE, mesh="context=8", devices="16"), "takes 8 devices", "--devices 16"),
    (_with(ESTIMATE, mesh="context=8", remat="full,none"), "one strategy", "--remat"),
    (["serach"], "no command 'serach'", "search"),
    (["search"], "Missing option", "--model"),
    (["catalog", "planets"], "planets", "models"),
    (["catalog", "models", "lama3-8b"], "lama3-8b", "llama3-8b"),
]


@pytest.mark.parametrize(("arguments", "says", "way_out"), CASES, ids=[f"{c[1]}"[:30] for c in CASES])
def test_bad_input(lcplan, arguments, says, way_out):
    answer = lcplan(*arguments)
    assert answer.code == 2
    assert says in answer.err
    assert way_out in answer.err
    assert "Traceback" not in answer.err
    assert answer.out == ""
    assert list(Path.cwd().iterdir()) == []


def test_an_unknown_model_and_an_unknown_hardware_are_told_together(lcplan):
    answer = lcplan(*_with(SEARCH, model="lama3-8b", hw="gb200-nvl27", mesh="contxt=2"))
    assert answer.code == 2
    assert len(answer.err.splitlines()) == 3


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"model_type": "llama", "hidden_size": 40', "not valid JSON"),
        ('{"model_type": "vit", "hidden_size": 768}', "vit"),
        ('{"model_type":"llama","hidden_size":1e308,"num_hidden_layers":-3}', "hidden_size"),
        ("[]", "config.json"),
    ],
)
def test_configs_that_are_no_model(lcplan, content, says):
    Path("config.json").write_text(content)
    answer = lcplan(*_with(SEARCH, model="config.json"))
    assert answer.code == 2
    assert says in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("option", ["model", "hw"])
def test_yaml_is_never_executed(lcplan, option):
    Path("evil.yaml").write_text('!!python/object/apply:os.system ["touch pwned"]\n')
    answer = lcplan(*_with(SEARCH, **{option: "evil.yaml"}))
    assert answer.code == 2
    assert "evil.yaml" in answer.err
    assert not Path("pwned").exists()


def test_a_folder_of_another_request_is_left_alone(lcplan):
    assert lcplan(*SEARCH, "--out", "run").code == 0
    before = {file.name: file.read_bytes() for file in Path("run").iterdir()}
    answer = lcplan(*_with(SEARCH, global_batch="8"), "--out", "run")
    assert answer.code == 2
    assert "holds another request" in answer.err
    assert "workload.global_batch" in answer.err
    assert {file.name: file.read_bytes() for file in Path("run").iterdir()} == before


def test_a_file_in_the_place_of_the_folder(lcplan):
    Path("run").write_text("mine")
    answer = lcplan(*SEARCH, "--out", "run")
    assert answer.code == 3
    assert "--out" in answer.err
    assert Path("run").read_text() == "mine"


def test_a_damaged_folder_is_told(lcplan):
    assert lcplan(*SEARCH, "--out", "run").code == 0
    Path("run/request.json").write_text(json.dumps({})[:-1])
    answer = lcplan(*SEARCH, "--out", "run")
    assert answer.code == 2
    assert "request.json" in answer.err


DIGITS = "9" * 5000


@pytest.mark.parametrize(
    "option",
    [("--mesh", f"context={DIGITS}"), ("--devices", DIGITS), ("--price", DIGITS), ("--price", "nan"), ("--seq", DIGITS)],
)
def test_numbers_beyond_measure(lcplan, option):
    answer = lcplan("search", "--model", "llama-tiny", "--seq", "256", "--hw", "cpu-host", "--stages", "modelled", *option)
    assert answer.code == 2
    assert "Traceback" not in answer.err


def test_a_fault_of_our_own_names_its_place_and_is_no_answer(lcplan, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no such thing\x1b[31m")

    monkeypatch.setattr("planner.cli.commands.search.build_request", broken)
    answer = lcplan("search", "--model", "llama-tiny", "--seq", "256", "--hw", "cpu-host", "--stages", "modelled")
    assert answer.code == 3
    assert "a fault of lcplan" in answer.err
    assert "RuntimeError at" in answer.err
    assert "LCPLAN_DEBUG=1" in answer.err
    assert "\x1b" not in answer.err
