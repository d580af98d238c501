"""Imports without the warnings that Beam and Google's libraries print of every use."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def silence_imports() -> Iterator[None]:
    """Lets imports say nothing of what is old, or could be had besides."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
