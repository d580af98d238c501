"""Prints a config as the jobs see it, with the values that it does not give; or a JSON Schema.

    estimator-pipeline config --config=flights --set=train.steps=500
    estimator-pipeline config --schema > config.schema.json

With `# yaml-language-server: $schema=config.schema.json` as the first line of a config, editors
complete and check its keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from absl import flags

from pipeline import cli, config, errors
from pipeline.config import config_file, reference
from pipeline.sections import Section

_CONFIG = cli.config_flag()
_SET = cli.set_flag()
_SCHEMA = flags.DEFINE_bool("schema", False, "Print the JSON Schema of all configs instead.")


def main() -> None:
    """Prints what is asked for."""
    if _SCHEMA.value:
        print(json.dumps(_build_schema(), indent=1))
        return
    if _CONFIG.value is None:
        raise errors.UsageError("--config is missing: name one in configs/, or give a path")
    print(config_file.dump(config_file.load(_CONFIG.value, _SET.value), redacted=True), end="")


def _build_schema() -> dict[str, object]:
    """Returns the schema of a config file: of one with a `base`, the base gives what is missing,
    of a section, too; `data.input_fn` stands for all keys of records, and `labels` for a label."""
    found = config.Config.model_json_schema()
    sections = {section.__name__: section for section in _list_subclasses(Section)}
    for name, part in (("Config", found), *found["$defs"].items()):
        meanings = reference.docstrings(sections[name]) if name in sections else {}
        for key, described in part["properties"].items() if meanings else ():
            described.setdefault("description", meanings.get(key, ""))
    found["properties"]["base"] = {
        "type": "string",
        "description": "A config whose values this one changes.",
    }
    for section in ("Data", "Model"):
        found["$defs"][section]["required"] = []
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found, "required": []}


def _list_subclasses(section: type[Section]) -> Iterator[type[Section]]:
    for one in section.__subclasses__():
        yield from (one, *_list_subclasses(one))


if __name__ == "__main__":
    cli.run(main)
