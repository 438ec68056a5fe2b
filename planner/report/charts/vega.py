"""Vega-Lite, offline: the library's JavaScript for the page, and PNG or SVG without a browser.

All of it comes from vl-convert-python, which carries Vega, Vega-Lite and Vega-Embed in one wheel. Making the bundle takes
seconds, so it is kept in the user's cache folder under the versions that it was made of.
"""

from __future__ import annotations

import json
import os
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lcplan.formats.errors import StageFailedError
from lcplan.formats.textfile import write_text

PACKAGE = "vl-convert-python"
MODULES = ("vl_convert", "jinja2")
"""The modules that the report needs: the charts' renderer and the page's template engine."""
WAY_OUT = 'the report needs packages that are installed with lcplan and are gone: pip install --upgrade "lcplan"'
PIXELS_PER_POINT = 2.0
"""Resolution of PNG charts, as on a display of high density."""
BUNDLED = "window.vegaEmbed = vegaEmbed;"


def available() -> bool:
    """Whether they are installed; imports nothing."""
    return all(find_spec(module) is not None for module in MODULES)


def require() -> Any:
    """The module that draws Vega-Lite.

    Raises
    ------
    StageFailedError
        They are not installed; the message gives the command.
    """
    if not available():
        raise StageFailedError(WAY_OUT)
    import vl_convert

    return vl_convert


def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that sets ``window.vegaEmbed`` and asks no network."""
    converter = require()
    file = _cache_folder() / f"vega-embed-{_version()}-{converter.get_vega_embed_version()}.js"
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        script = str(converter.javascript_bundle(BUNDLED))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, script)
    except OSError:
        pass  # a cache that cannot be written costs seconds next time, nothing else
    return script


def png(spec: dict[str, Any]) -> bytes:
    """A Vega-Lite specification as a PNG."""
    return bytes(require().vegalite_to_png(json.dumps(spec), scale=PIXELS_PER_POINT))


def svg(spec: dict[str, Any]) -> str:
    """A Vega-Lite specification as an SVG."""
    return str(require().vegalite_to_svg(json.dumps(spec)))


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "lcplan"


def _version() -> str:
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return "unknown"
