"""Writes a first config for raw data: source, columns with types and rules, features, a label.

    python -m preprocessing.infer_schema --data=data/flights/sample.csv.gz --out=sample.yaml

Reads everything, some hundred thousand rows a second. Takes CSV (plain, gz, zip), Parquet and JSON
lines: a file, a pattern of several, or a folder.
"""

from __future__ import annotations

from absl import flags

from pipeline import cli, config_file
from preprocessing import propose

_DATA = flags.DEFINE_string("data", None, "File, pattern or folder to read.", required=True)
_OUT = flags.DEFINE_string("out", "", "Config to write. Default: configs/<name of the data>.yaml.")


def main() -> None:
    """Reads the data, writes the config, and says where it is."""
    guess, found = propose.explore(_DATA.value)
    path = _OUT.value or str(config_file.SHIPPED / f"{propose.name_of(_DATA.value)}.yaml")
    propose.write(path, propose.render(guess, found, propose.name_of(path), path))
    print(f"{path}: {len(found.columns)} columns of {found.rows:,} rows. Look it over, then:")
    print(f"  make preprocess CONFIG={path}")


if __name__ == "__main__":
    cli.run(main)
