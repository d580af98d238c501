"""Writes, reads and removes one object with TensorFlow's client: `python -m
pipeline.storage.gcs_probe gs://bucket/object`. For `pipeline.storage.gcs_preflight`, which gives it
a process and some seconds."""

from __future__ import annotations

import sys

from pipeline import errors
from pipeline.storage import gcs_errors

_CONTENT = "written by TensorFlow"


def probe(path: str) -> None:
    """Raises the `PipelineError` of what TensorFlow's client cannot do."""
    import tensorflow as tf

    try:
        with tf.io.gfile.GFile(path, "w") as file:
            file.write(_CONTENT)
        with tf.io.gfile.GFile(path) as file:
            found = file.read()
        tf.io.gfile.remove(path)
    except tf.errors.OpError as error:
        ours = gcs_errors.translate_tensorflow_error(error)
        if isinstance(ours, errors.PipelineError):
            raise ours from None
        raise errors.RetryableError(f"{path!r}: {str(error).splitlines()[0]}") from None
    if found != _CONTENT:
        raise errors.RetryableError(f"{path!r}: holds {found!r} after {_CONTENT!r} was written")


def main(arguments: list[str]) -> int:
    """Returns the exit code of the probe."""
    try:
        probe(*arguments)
    except errors.PipelineError as error:
        print(error.line, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
