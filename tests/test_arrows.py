"""The house's arrows: planner -> {strategies, cost_models} -> lcplan, and who may import what from outside.

Imports are read from the source (lazy ones inside functions too), and from what a fresh Python has loaded.
"""

import ast
import subprocess
import sys
from collections import Counter, defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("lcplan", "cost_models", "strategies", "planner")
JAX = {"jax", "jaxlib", "flax", "optax", "libtpu", "jax_plugins"}
POINTS_UP = {
    "lcplan/__init__.py": {"planner.api"},
    "lcplan/__main__.py": {"planner.cli.main"},
    "lcplan/step.py": {"planner.measure.step_file.helpers"},
}
"""The files that may reach a higher package, and only through ``import_module`` of these names."""
MOST_MODULES = 15
HEAVY = ("jax", "numpy", "optuna", "flax", "matplotlib", "plotly", "rich", "click")


def files(package):
    return sorted((ROOT / package).rglob("*.py"))


def nodes(path):
    """Everything in a file but the bodies of ``if TYPE_CHECKING``, which never run."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typed = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    return [node for node in ast.walk(tree) if id(node) not in typed]


def imported(path):
    """Top-level names of everything that a file imports, anywhere in it; relative imports are the package's own."""
    names = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
        elif isinstance(node, ast.ImportFrom) and node.level:
            names.add(path.relative_to(ROOT).parts[0])
    return names


def named(path):
    """Modules of the four packages that a file holds as text, which is how ``import_module`` takes them."""
    texts = {node.value for node in nodes(path) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return texts & set(MODULES)


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for package in PACKAGES for path in files(package)}
"""Every module by its full name."""


def arrows(path):
    """Modules that a file imports, lazily or not, by statement or by name."""
    wanted = set(named(path))
    for node in nodes(path):
        if isinstance(node, ast.Import):
            wanted |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = path.parent.relative_to(ROOT).parts
                base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
            inner = {f"{base}.{alias.name}" for alias in node.names}
            wanted |= {name if name in MODULES else base for name in inner}
    return wanted & set(MODULES) - {module_of(path)}


def plain_arrows():
    """The graph of modules without the ``__init__`` and ``__main__`` that offer others' names."""
    plain = {module for module, path in MODULES.items() if not path.stem.startswith("__")}
    return {module: arrows(MODULES[module]) & plain for module in plain}


def folder_of(module):
    """``planner/run`` of ``planner.run.tune.sampler``; a file of the package's root is a folder of its own."""
    return "/".join(module.split(".")[:2])


def circle(graph):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def files_without_jax():
    checkers = sorted((ROOT / "planner" / "trainers").glob("*/check.py"))  # they run under the trainer's own Python and jax
    may = (ROOT / "strategies", ROOT / "planner" / "measure", *checkers)
    return [path for package in PACKAGES for path in files(package) if not any(map(path.is_relative_to, may))]


def label(path):
    return str(path.relative_to(ROOT))


def test_there_is_something_to_check():
    assert all(files(package) for package in PACKAGES)
    assert "pydantic" in imported(ROOT / "lcplan" / "formats" / "frozen.py")
    assert "lcplan" in imported(ROOT / "lcplan" / "catalog" / "user_specs.py")


def test_no_files_import_each_other_in_a_circle():
    assert len(plain_arrows()) > 100
    assert circle(plain_arrows()) == []


def test_no_folders_import_each_other_in_a_circle():
    folders = defaultdict(set)
    for module, wanted in plain_arrows().items():
        folders[folder_of(module)] |= {folder_of(other) for other in wanted} - {folder_of(module)}
    assert circle(folders) == []


def test_no_folder_has_more_modules_than_a_reader_can_hold():
    sizes = Counter(label(path.parent) for path in MODULES.values() if path.name != "__init__.py")
    assert {folder: size for folder, size in sizes.items() if size > MOST_MODULES} == {}


def test_planners_root_holds_the_api_and_folders():
    assert {path.name for path in (ROOT / "planner").glob("*.py")} == {"__init__.py", "api.py"}


@pytest.mark.parametrize("path", files("lcplan"), ids=label)
def test_only_two_files_of_lcplan_know_a_higher_package_by_name(path):
    assert {name for name in named(path) if not name.startswith("lcplan")} == POINTS_UP.get(label(path), set())


@pytest.mark.parametrize("path", [*files("cost_models"), *files("strategies")], ids=label)
def test_laws_and_programs_know_no_planner_by_name(path):
    assert not {name for name in named(path) if name.startswith("planner")}


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
    program = "import sys, lcplan; dir(lcplan); print([n for n in ('pydantic', 'yaml', 'planner') if n in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_lcplan_offers_the_api_under_its_own_name():
    import lcplan
    import planner

    for name in planner.__all__:
        assert getattr(lcplan, name) is getattr(planner, name)
    assert set(planner.__all__) < set(lcplan.__all__) <= set(dir(lcplan))


def test_python_runs_lcplan_as_the_command():
    run = subprocess.run([sys.executable, "-m", "lcplan", "--help"], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("Usage: lcplan [OPTIONS] COMMAND")
    wrong = subprocess.run([sys.executable, "-m", "lcplan", "serch"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "did you mean 'search'?" in wrong.stderr


def test_cost_models_load_numpy_but_no_jax():
    program = "import sys, cost_models.estimate; print([name for name in ('jax', 'optuna', 'flax') if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_lcplan_gives_a_clear_error_for_a_name_that_it_has_not():
    import lcplan

    with pytest.raises(AttributeError, match="module 'lcplan' has no attribute 'Plann'"):
        lcplan.Plann  # noqa: B018
    assert all(getattr(lcplan, name) is not None for name in lcplan.__all__)
