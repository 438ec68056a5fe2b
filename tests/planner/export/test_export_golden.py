"""Exported text against golden files: what a change to an exporter does is seen in a diff.

``LCPLAN_WRITE_GOLDEN=1 pytest tests/planner/export/test_export_golden.py`` writes them anew.
"""

import os
from pathlib import Path

import pytest
import yaml
from export_plans import ABLE, mixtures

from lcplan import __version__
from planner.export.run import export_plan

GOLDEN = Path(__file__).with_name("golden")
CASES = [
    ("maxtext", "8b-256k-gb200"), ("maxtext", "8b-256k-v5p"), ("maxtext", "8b-128k-two-slices"), ("maxtext", "8b-8k-v6e"),
    ("megatron", "8b-256k-gb200"), ("megatron", "70b-128k-h200"), ("megatron", "8b-8k-h100"),
    ("torchtitan", "8b-256k-gb200"), ("torchtitan", "8b-1m-gb200"), ("torchtitan", "qwen3-32k"),
    ("accelerate", "8b-256k-gb200"), ("accelerate", "70b-32k-fsdp"),
    ("deepspeed", "8b-64k-ulysses"), ("deepspeed", "70b-32k-fsdp"),
    ("levanter", "70b-8k-gb200"), ("levanter", "8b-128k-two-slices"),
    ("jax", "8b-256k-gb200"), ("jax", "8b-8k-v6e"),
]  # fmt: skip
MIXTURES = [("maxtext", "qwen3-moe-32k-gb200"), ("maxtext", "mixtral-8k-v5p")]


@pytest.mark.parametrize(("trainer", "name"), [*CASES, *MIXTURES])
def test_export_is_the_golden_text(named_plans, trainer, name):
    written = export_plan((named_plans | mixtures())[name], trainer).files
    folder = GOLDEN / f"{trainer}-{name}"
    texts = {
        file: text.replace(f"lcplan {__version__}", "lcplan VERSION") for file, text in written.items() if file != "plan.yaml"
    }
    if os.environ.get("LCPLAN_WRITE_GOLDEN"):
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            (folder / f"{file}.txt").write_text(text)
    assert {file.name.removesuffix(".txt"): file.read_text() for file in sorted(folder.iterdir())} == texts


def test_the_jax_export_carries_a_plan_that_loads(named_plans, tmp_path):
    from lcplan.evidence.plan import Plan

    files = export_plan(named_plans["8b-256k-gb200"], "jax").files
    (tmp_path / "plan.yaml").write_text(files["plan.yaml"])
    assert Plan.load(tmp_path / "plan.yaml").strategy == named_plans["8b-256k-gb200"].strategy


@pytest.mark.parametrize("trainer", sorted(ABLE))
def test_every_plan_is_exported_or_refused_with_a_reason(named_plans, trainer):
    from lcplan.formats.errors import BadInputError

    for name, plan in named_plans.items():
        if name in ABLE[trainer]:
            assert export_plan(plan, trainer).files
        else:
            with pytest.raises(BadInputError, match=f"^{trainer}: "):
                export_plan(plan, trainer)


def test_yaml_and_json_exports_are_valid(named_plans):
    import json

    for trainer, file in (("maxtext", "maxtext.yml"), ("accelerate", "accelerate.yaml"), ("levanter", "levanter.yaml")):
        for name in ABLE[trainer]:
            assert isinstance(yaml.safe_load(export_plan(named_plans[name], trainer).files[file]), dict)
    for name in ABLE["deepspeed"]:
        assert isinstance(json.loads(export_plan(named_plans[name], "deepspeed").files["deepspeed.json"]), dict)


def test_python_exports_parse(named_plans):
    for trainer in ("torchtitan", "deepspeed", "jax"):
        for name in ABLE[trainer]:
            for file, text in export_plan(named_plans[name], trainer).files.items():
                if file.endswith(".py"):
                    compile(text, file, "exec")


def test_launch_scripts_are_shell(named_plans, tmp_path):
    import subprocess

    for trainer, names in ABLE.items():
        script = tmp_path / f"{trainer}.sh"
        script.write_text(export_plan(named_plans[names[0]], trainer).files["launch.sh"])
        subprocess.run(["bash", "-n", str(script)], check=True)
