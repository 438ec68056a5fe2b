"""A process's place among several, as launchers say it."""

from __future__ import annotations

import pytest

from lcplan.formats.errors import BadInputError
from planner.measure.workers.gang import VARIABLE, Gang, Place, here, launched


@pytest.mark.parametrize(
    "environment",
    [
        {"SLURM_PROCID": "1", "SLURM_NTASKS": "4"},
        {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"},
        {"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "4"},
    ],
)
def test_the_launchers_word(environment: dict[str, str]) -> None:
    assert launched(environment) == Place(processes=4, rank=1)


def test_jaxs_own_variables_name_the_coordinator_too() -> None:
    variables = {"JAX_PROCESS_ID": "0", "JAX_NUM_PROCESSES": "2", "JAX_COORDINATOR_ADDRESS": "a:1"}
    assert launched(variables) == Place(processes=2, rank=0, coordinator="a:1")


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"},
        {"SLURM_PROCID": "0"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "many"},
        {"SLURM_PROCID": "", "SLURM_NTASKS": "2"},
        {"JAX_PROCESS_ID": "2", "JAX_NUM_PROCESSES": "2"},
    ],
)
def test_alone_is_no_gang(environment: dict[str, str]) -> None:
    with pytest.raises(BadInputError, match="JAX_COORDINATOR_ADDRESS=HOST:PORT"):
        launched(environment)


def test_the_place_travels_to_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert here() is None
    gang = Gang(coordinator="a:1", processes=2, rank=1, devices_per_process=4, platform="cpu")
    for name, value in gang.environment.items():
        monkeypatch.setenv(name, value)
    assert here() == gang
    assert gang.devices == 8
