"""Writes a first config for raw data: source, columns with types and rules, features, a label.

    estimator-pipeline schema --data=data/flights/sample.csv.gz --out=sample.yaml

Reads everything, some hundred thousand rows a second. Takes CSV and JSON lines (plain, gz, zip),
Parquet, ORC, Avro and TFRecord: a file, a pattern of several, or a folder; and images, as IDX files
or in a folder of classes.
"""

from __future__ import annotations

from absl import flags

from pipeline import cli
from pipeline.command_line import hints
from preprocessing.schema_inference import write_config

_DATA = flags.DEFINE_string("data", None, "File, pattern or folder to read.", required=True)
_OUT = flags.DEFINE_string(
    "out", "", "Config to write. Default: <name of the data>.yaml, in the current folder."
)
_HEADER = flags.DEFINE_enum(
    "header",
    None,
    ["0", "1"],
    "Whether the first row of a CSV file has the column names. Default: detected.",
)
_LABEL = flags.DEFINE_string(
    "label", "", "Column to predict, or several: a,b. Default: a likely one."
)


def main() -> None:
    """Reads the data, writes the config, and says where it is."""
    path = _OUT.value or f"{write_config.build_name(_DATA.value)}.yaml"
    header = None if _HEADER.value is None else _HEADER.value == "1"
    found = write_config.propose(_DATA.value, path, _LABEL.value, has_header=header)
    write_config.write(path, found.text)
    given = [f"--data={_DATA.value}", f"--out={_OUT.value}", f"--config={path}"]
    if found.nothing:
        print(f"{path}: {found.seen}")
        print(hints.format_as_typed(f"warning: {found.nothing}", given))
    else:
        print(f"{path}: {found.seen}. Look it over, then:")
        print(hints.format_as_typed("  make train", given))
    if found.label and not _LABEL.value:
        other = "another: make schema LABEL=column"
        print(hints.format_as_typed(f"label: {found.label}, {found.why}; {other}", given))
    for why in found.telling.values():
        print(
            f"warning: {why}. If it is not known before the label is, remove it from features: the "
            "model would be good in tests only"
        )
    for remark in found.remarks:
        print(hints.format_as_typed(f"warning: {remark}", given))
    if found.damage:
        stops = (
            f"{found.damage}. make preprocess will stop at them: {found.fix}, or allow that many"
        )
        print(hints.format_as_typed(f"{stops} dead letters (error_budget in {path})", given))


if __name__ == "__main__":
    cli.run(main)
