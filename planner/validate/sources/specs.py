"""A row's model, hardware and program as values; each distinct text of a table is read once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from cost_models.inputs.program import PROGRAMS, Program
from lcplan import catalog
from lcplan.catalog.gpu_names import GPUS, SYSTEMS
from lcplan.catalog.path_like import is_path
from lcplan.catalog.user_specs import hardware_from, model_from
from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.spec.segments import domains_for
from planner.validate.sources.excuse import NotModelledError
from planner.validate.sources.names import is_slip, model_of
from planner.validate.sources.table import Row, Source

T = TypeVar("T")
UNSTATED = "flash"
"""The program of a row that states none and whose source names no trainer: the common part of published trainers."""

TRAINERS: tuple[tuple[str, str], ...] = (
    ("maxtext", "maxtext"),
    ("tpu-recipes", "maxtext"),
    ("paxml", "paxml"),
    ("torchtitan", "torch-compile"),
    ("llm-foundry", "llm-foundry"),
    ("internevo", "internevo"),
    ("loongtrain", "loongtrain"),
    ("megatron-deepspeed", "megatron-deepspeed"),
    ("megatron", "megatron"),
    ("nemo", "nemo"),
    ("deepspeed", "deepspeed"),
    ("fsdp", "torch-compile"),
    ("pytorch", "torch-compile"),
)
"""Words of a source's title or address and the trainer that they name; the first match counts."""


def trainer_of(source: Source) -> str:
    """The program of a table's rows that state none, by its source's own words."""
    text = f"{source.title} {source.where}".lower()
    words = {name for name, _ in TRAINERS if re.search(rf"(?<![a-z]){re.escape(name)}(?![a-z])", text)}
    return next((program for name, program in TRAINERS if name in words), UNSTATED)


class Specs:
    """Models, hardware and programs that the rows of one table name.

    ``folder`` is the folder of the table's file, ``unstated`` the program of rows that state none.
    """

    def __init__(self, table: str, folder: Path, *, unstated: str = UNSTATED) -> None:
        self.table = table
        self.folder = folder
        self.unstated = unstated
        self._read: dict[tuple[str, str], Any] = {}

    def _once(self, kind: str, *, stated: Any, read: Callable[[], T]) -> T:
        key = (kind, json.dumps(stated, sort_keys=True))
        if key not in self._read:
            self._read[key] = read()
        found: T = self._read[key]
        return found

    def model(self, row: Row) -> ModelSpec:
        """The row's model.

        Raises
        ------
        NotModelledError
            None stated, a name that the catalogue lacks, or an architecture that lcplan does not model.
        BadInputError
            An inline spec with unknown or missing keys.
        """
        model = self._model(row)
        if model.not_planned:
            raise NotModelledError("architecture", f"the cost model has no {', '.join(model.not_planned)} ({model.name})")
        return model

    def _model(self, row: Row) -> ModelSpec:
        stated = row.model
        if stated is None:
            raise NotModelledError("incomplete configuration", "no model is stated")
        if isinstance(stated, dict):
            where = {
                "name": str(stated.get("name", self.table)),
                "source": f"table {self.table}",
                "where": f"row {row.id}: model",
            }
            return self._once("model", stated=stated, read=lambda: model_from(stated, **where))
        try:
            return self._once("model", stated=stated, read=lambda: self._named_model(stated))
        except BadInputError as error:
            raise NotModelledError("architecture", str(error)) from None

    def _named_model(self, stated: str) -> ModelSpec:
        path = self._path(stated)
        known = model_of(stated)
        return catalog.model(known if not Path(path).exists() and known in catalog.model_names() else path)

    def hardware(self, row: Row) -> HardwareSpec:
        """The row's hardware, with as many domains as its devices fill where the table names fewer.

        Raises
        ------
        NotModelledError
            None stated, or a name of hardware that the catalogue lacks.
        BadInputError
            A slip in a name or a wrong inline spec.
        """
        stated = row.hardware
        if stated is None:
            raise NotModelledError("incomplete configuration", "no hardware is stated")
        if isinstance(stated, dict):
            where = {
                "name": str(stated.get("name", self.table)),
                "source": f"table {self.table}",
                "where": f"row {row.id}: hardware",
            }
            spec = self._once("hardware", stated=stated, read=lambda: hardware_from(stated, **where))
        else:
            spec = self._once("hardware", stated=stated, read=lambda: self._named_hardware(stated))
        domains = domains_for(spec, row.devices or 1)
        if domains <= spec.domains or spec.network_link is None:
            return spec
        return self._once("grown", stated=[stated, domains], read=lambda: spec.model_copy(update={"domains": domains}))

    def _named_hardware(self, stated: str) -> HardwareSpec:
        """Hardware by name; unknown hardware is an excuse, a typing error is an error."""
        try:
            return catalog.hardware(self._path(stated))
        except BadInputError as error:
            names = (*catalog.hardware_names(), *GPUS, *SYSTEMS)
            if is_path(stated) or stated.lower().startswith("tpu-") or is_slip(stated, names):
                raise
            raise NotModelledError("incomplete configuration", str(error)) from None

    def program(self, row: Row) -> Program:
        """The row's program: a known trainer, or a mapping of its differences (``base`` names a trainer to start from).

        Raises
        ------
        BadInputError
            An unknown name or key.
        """
        stated = row.program
        stated = self.unstated if stated is None else stated
        where = f"row {row.id}: program"
        name = stated if isinstance(stated, str) else stated.get("base", self.unstated)
        if name not in PROGRAMS:
            raise BadInputError(f"{where}: unknown trainer {name!r:.60}{hint(str(name), PROGRAMS)}")
        if isinstance(stated, str):
            return PROGRAMS[name]
        changes = {key: value for key, value in stated.items() if key != "base"}
        return self._once(
            "program", stated=stated, read=lambda: Program.read(PROGRAMS[name].model_dump(mode="json") | changes, where)
        )

    def _path(self, text: str) -> str:
        """A path in a table is relative to the table's own folder."""
        beside = self.folder / text
        return str(beside) if is_path(text) and not Path(text).exists() and beside.exists() else text
