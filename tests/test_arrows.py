"""The house's arrows: planner -> {strategies, cost_models} -> lcplan, and who may import what from outside.

Imports are read from the source (lazy ones inside functions too), and from what a fresh Python has loaded.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("lcplan", "cost_models", "strategies", "planner")
JAX = {"jax", "jaxlib", "flax", "optax", "libtpu", "jax_plugins"}
HEAVY = ("jax", "numpy", "optuna", "flax", "matplotlib", "plotly", "rich", "click")


def files(package):
    return sorted((ROOT / package).rglob("*.py"))


def imported(path):
    """Top-level names of everything that a file imports, anywhere in it; relative imports are the package's own."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
        elif isinstance(node, ast.ImportFrom) and node.level:
            names.add(path.relative_to(ROOT).parts[0])
    return names


def files_without_jax():
    may = (ROOT / "strategies", ROOT / "planner" / "measure")
    return [path for package in PACKAGES for path in files(package) if not any(map(path.is_relative_to, may))]


def label(path):
    return str(path.relative_to(ROOT))


def test_there_is_something_to_check():
    assert all(files(package) for package in PACKAGES)
    assert "pydantic" in imported(ROOT / "lcplan" / "formats" / "frozen.py")
    assert "lcplan" in imported(ROOT / "lcplan" / "catalog" / "user_specs.py")


@pytest.mark.parametrize("path", files("lcplan"), ids=label)
def test_lcplan_needs_pydantic_and_a_yaml_reader_alone(path):
    assert imported(path) <= {"lcplan", "pydantic", "yaml", *sys.stdlib_module_names}


@pytest.mark.parametrize("path", files("cost_models"), ids=label)
def test_cost_models_adds_numpy_and_knows_no_program(path):
    assert imported(path) <= {"lcplan", "cost_models", "numpy", "pydantic", "yaml", *sys.stdlib_module_names}


@pytest.mark.parametrize("path", files("strategies"), ids=label)
def test_strategies_know_neither_predictions_nor_the_planner(path):
    assert not imported(path) & {"cost_models", "planner"}


@pytest.mark.parametrize("path", files_without_jax(), ids=label)
def test_jax_is_for_strategies_and_measuring_alone(path):
    assert not imported(path) & JAX


@pytest.mark.parametrize("path", [*files("lcplan"), *files("cost_models")], ids=label)
def test_nouns_and_laws_neither_print_nor_exit(path):
    calls = [node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    named = {ast.unparse(func) for func in calls if isinstance(func, ast.Name | ast.Attribute)}
    assert not named & {"print", "exit", "quit", "sys.exit", "os._exit"}


@pytest.mark.parametrize(
    "code",
    [
        "import lcplan; lcplan.Plan, lcplan.ModelSpec, lcplan.HardwareSpec",
        "from lcplan.catalog import hardware, model; hardware('gb200-nvl72x2'), model('llama3-8b'), hardware('tpu-v5p-64')",
        "import lcplan.hf, lcplan.catalog.user_specs",
    ],
)
def test_a_fresh_python_has_loaded_nothing_heavy(code):
    program = f"import sys; {code}; print([name for name in {HEAVY!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_importing_lcplan_loads_not_even_pydantic():
    program = "import sys, lcplan; print('pydantic' in sys.modules, 'yaml' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "False False\n"


def test_cost_models_load_numpy_but_no_jax():
    program = "import sys, cost_models.estimate; print([name for name in ('jax', 'optuna', 'flax') if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_lcplan_gives_a_clear_error_for_a_name_that_it_has_not():
    import lcplan

    with pytest.raises(AttributeError, match="module 'lcplan' has no attribute 'Plann'"):
        lcplan.Plann  # noqa: B018
    assert all(getattr(lcplan, name) is not None for name in lcplan.__all__)
