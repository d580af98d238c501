"""Which files of a folder are read: all of one ending, or those a person has to choose."""

from __future__ import annotations

import collections
import os
import re

from pipeline import errors, storage
from preprocessing.sources import files, lakes, partitions


def find_pattern(path: str) -> str:
    """Returns a folder as a pattern of its files, and anything else as it is. Raises `DataError` if
    the files are of several endings, or if there are folders besides them or none."""
    lakes.refuse([path])
    folder, paths = partitions.list_below(path)
    if not paths and not storage.is_remote(path) and os.path.isdir(path):
        raise errors.DataError(f"{path!r}: a folder without files to read")
    if not paths:
        return path
    if not storage.is_remote(path) and any(map(os.path.isdir, paths)):
        raise _build_error(path)
    endings = list(map(_find_ending, paths))
    if len(different := sorted(set(endings))) > 1:
        shown = ", ".join(repr(ending) if ending else "no ending" for ending in different)
        raise errors.DataError(
            f"{path!r}: a folder of {shown}; give a pattern of those to read, such as "
            f"{storage.join(folder, '*' + files.choose_ending(endings))!r}"
        )
    return storage.join(folder, f"*{endings[0]}")


def _build_error(path: str) -> errors.DataError:
    """Returns the error of a folder that has folders, with a pattern that fits some files below."""
    top = path.rstrip("/")
    every = [found[len(top) + 1 :] for found in storage.glob(f"{files.escape(top)}/**")]
    below = [name for name in every if not re.search(r"/[._]", f"/{name}")]
    if not below:
        return errors.DataError(f"{path!r}: a folder of folders, without files to read")
    likely = files.choose_ending(map(_find_ending, below))
    depths = collections.Counter(name.count("/") for name in below if _find_ending(name) == likely)
    pattern = f"{top}/{'*/' * depths.most_common(1)[0][0]}*{likely}"
    return errors.DataError(
        f"{path!r}: has folders in it; give a pattern of the files to read, such as {pattern!r}"
    )


def _find_ending(path: str) -> str:
    name = path.rpartition("/")[2]
    return name[name.find(".") :] if "." in name else ""
