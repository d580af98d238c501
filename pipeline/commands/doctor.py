"""Checks whether this machine can run jobs; each line says ok, or FIX and what to do.

    estimator-pipeline doctor --storage=output
    estimator-pipeline doctor --cluster=slurm     that it can submit jobs there
    estimator-pipeline doctor --device=cpu:0 --size=256,1024    how fast it multiplies matrices

Takes a few seconds, most of them the import of TensorFlow. Exits with 0, or 64 if there is
something to fix. With a device or sizes only matrix products are measured, of several data types;
each line begins with the device that TensorFlow placed the product on.
"""

from __future__ import annotations

from absl import flags

from pipeline import cli, errors, places, versions
from pipeline.launchers import base, checks, products

_STORAGE = cli.storage_flag()
_CLUSTER = cli.place_flag(places.list_training())
_DEVICE = flags.DEFINE_string("device", None, "Device to multiply on, such as gpu:0. Default: all.")
_SIZE = flags.DEFINE_list("size", None, "Rows of the square matrices to multiply.")


def main() -> None:
    """Prints every finding, and fails if one of them needs fixing."""
    if _DEVICE.value or _SIZE.value:
        _multiply()
        return
    if not checks.report(base.choose(_CLUSTER.value).checks(_STORAGE.value)):
        raise errors.UsageError("some checks failed; see the lines with FIX")


def _multiply() -> None:
    """Prints how fast devices of this machine are. Raises `UsageError` for what there is not."""
    if _CLUSTER.value != places.HERE:
        raise errors.UsageError(
            f"--cluster={_CLUSTER.value}: only devices of this machine can be measured; "
            "leave out --device and --size"
        )
    sizes = products.check_sizes(_SIZE.value) if _SIZE.value else products.SIZES
    versions.require_estimators()
    for product in products.measure(products.devices(_DEVICE.value), sizes):
        print(product, flush=True)


if __name__ == "__main__":
    cli.run(main, native_log="3")
