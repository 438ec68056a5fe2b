"""The settings of ``accelerate launch`` in a script: its options over the file that ``--config_file`` names."""

from __future__ import annotations

from typing import Any

from lcplan.formats.errors import BadInputError
from lcplan.formats.textfile import named_beside, parse_yaml, read_text, read_yaml
from planner.shell.trainer_words import trainer_words, unread

_SECTIONS = {"fsdp_": "fsdp_config", "parallelism_config_": "parallelism_config"}
_KINDS = {"use_fsdp": "FSDP", "use_deepspeed": "DEEPSPEED", "multi_gpu": "MULTI_GPU"}
_ZERO = ("zero_stage", "offload_optimizer_device", "offload_param_device", "deepspeed_config_file")
_PLAIN = ("num_processes", "num_machines", "mixed_precision", "dynamo_backend")


def launch_of_script(file: str) -> dict[str, Any]:
    """Return the settings in the words of the launcher's YAML.

    Raises
    ------
    BadInputError
        No ``accelerate launch`` in the script, a word of it that only a shell knows, or a file that is not in its folder.
    """
    script = trainer_words(read_text(file), file, knows=lambda word: word in ("accelerate", "launch") or _is_option(word))
    command = script.command
    if command is None or not {"accelerate", "launch"} <= {*command.texts[: command.program_at]}:
        raise BadInputError(f"{file}: no accelerate launch in it; give the launcher's YAML, or the script that calls it")
    data: dict[str, Any] = {}
    given: dict[str, Any] = {}
    words = command.words[: command.program_at - 1]
    for index, word in enumerate(words):
        name, equals, value = word.text.removeprefix("--").partition("=")
        if not word.text.startswith("--") or not (_is_option(word.text) or name == "config_file"):
            continue
        after = words[index + 1] if index + 1 < len(words) and not words[index + 1].text.startswith("--") else None
        known = word if equals or after is None else after
        if known.unknown:
            raise BadInputError(f"{file}: {unread(f'--{name} {known.text}', known)}")
        text = value if equals else "true" if after is None else after.text
        if name == "config_file":
            data = _beside(file, text)
        else:
            given[name] = parse_yaml(text, f"{file}: --{name}")
    return _merged(data, given)


def _is_option(word: str) -> bool:
    name = word.removeprefix("--").partition("=")[0]
    return word.startswith("--") and (name in (*_PLAIN, *_KINDS, *_ZERO) or name.startswith(tuple(_SECTIONS)))


def _beside(file: str, name: str) -> dict[str, Any]:
    found = named_beside(name, file)
    data = read_yaml(found) if found is not None else None
    if not isinstance(data, dict):
        raise BadInputError(f"{file}: {name} of accelerate launch is not in its folder; put it there")
    return data


def _merged(data: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The file's settings with the command's in their place."""
    for name, value in given.items():
        section = next((section for prefix, section in _SECTIONS.items() if name.startswith(prefix)), None)
        if name in _KINDS:
            data = data | ({"distributed_type": _KINDS[name]} if value is True else {})
        elif section is not None or name in _ZERO:
            section = section or "deepspeed_config"
            data = data | {section: {**(data.get(section) or {}), name: value}}
        else:
            data = data | {name: value}
    return data
