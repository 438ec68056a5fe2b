"""A step file as a value: its path, and a hash of its content and of the local modules that it imports."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen

MOST_FILES = 2000


class StepFile(Frozen):
    """A file that the user named on the command line. Its path is no part of a result's key; its content is."""

    path: str
    digest: str
    packages: dict[str, str] = {}
    """Versions of the installed packages that it imports, or a hash of their source where they are installed for editing."""

    @classmethod
    def of(cls, path: Path, *, packages: bool = True) -> StepFile:
        """Hash a file as it is now; ``packages``: and the packages of lcplan's own Python that it imports.

        Raises
        ------
        BadInputError
            It cannot be read.
        """
        place = path.absolute()
        try:
            files = local_files(place)
            digest = hashlib.sha256()
            for file in files:
                digest.update(file.relative_to(place.parent).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
        except (OSError, ValueError) as error:
            raise BadInputError(f"{path}: {error}") from None
        return cls(path=str(place), digest=digest.hexdigest(), packages=_versions(files) if packages else {})


def local_files(path: Path) -> list[Path]:
    """The file and all modules in its folder and below that it imports, directly or through each other, in order of path."""
    found: dict[Path, None] = {}
    waiting = [path]
    while waiting and len(found) < MOST_FILES:
        file = waiting.pop()
        if file in found:
            continue
        found[file] = None
        waiting += [module for name, level in _imports(file) for module in _modules(name, level, file=file, root=path.parent)]
    return sorted(found)


def _imports(file: Path) -> Iterator[tuple[str, int]]:
    """Names of imported modules, with the dots before them; ``from a import b`` may name the module ``a.b`` too."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            yield base, node.level
            yield from ((f"{base}.{alias.name}".strip("."), node.level) for alias in node.names if alias.name != "*")


def _modules(name: str, level: int, *, file: Path, root: Path) -> Iterator[Path]:
    """Files of a module and of the packages around it; a relative import may not leave ``root``."""
    base = file.parents[level - 1] if level else root
    if not base.is_relative_to(root):
        return
    place = base
    for part in name.split(".") if name else ():
        place = place / part
        for candidate in (place.with_suffix(".py"), place / "__init__.py"):
            if candidate.is_file():
                yield candidate


def _versions(files: list[Path]) -> dict[str, str]:
    """Versions of installed packages that the files import at their top level or below."""
    local = {
        file.relative_to(files[0].parent).parts[0].removesuffix(".py") for file in files if file.is_relative_to(files[0].parent)
    }
    names = {name.partition(".")[0] for file in files for name, level in _imports(file) if not level and name}
    found = {}
    for name in sorted(names - set(sys.stdlib_module_names) - local):
        folder = _source_folder(name)
        if folder is not None:
            found[name] = _hash_of(folder)
        found |= {owner: metadata.version(owner) for owner in _owners().get(name, ())}
    return found


@lru_cache(maxsize=1)
def _owners() -> dict[str, list[str]]:
    return dict(metadata.packages_distributions())


def _source_folder(name: str) -> Path | None:
    """The folder of a package that is used from its source tree; None for one in site-packages."""
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places and not {"site-packages", "dist-packages"} & set(Path(places[0]).parts) else None


def _hash_of(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py"))[:MOST_FILES]:
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
