"""Which split and shard a row goes to, and where in the shard: functions of its key alone.

Nothing depends on workers, bundles or the clock, so a retried or parallel run gives the same
bytes (traps D5, D11), and a row stays in its split when others are added.
"""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import pyarrow as pa

from pipeline import config
from preprocessing import binary

# Splits are numbered by their place here.
SPLITS = config.SPLITS
_EVAL = SPLITS.index("eval")
_LONG_KEY = 256  # bytes


@dataclasses.dataclass(frozen=True)
class Places:
    """Where each row of a batch goes; three arrays of the same length."""

    split: np.ndarray  # uint8, index into SPLITS
    shard: np.ndarray  # uint32, below the number of shards of that split
    order: np.ndarray  # uint64, ascending within a shard


def splits_of(data: config.Data) -> list[str]:
    """Returns the splits that will exist: those with inputs, and `eval` if it is cut."""
    having = set(data.inputs) | {"eval" for split in data.inputs if cuts_eval(data, split)}
    return [split for split in SPLITS if split in having]


def cuts_eval(data: config.Data, split: str) -> bool:
    """Tells if rows of `split` may go to `eval`: only train's, and only if eval has no input."""
    return split == "train" and data.eval.share > 0 and "eval" not in data.inputs


def read_from(data: config.Data, split: str) -> str:
    """Returns the split whose inputs hold the rows of `split`."""
    return split if split in data.inputs else "train"


def shards_of(data: config.Data, split: str) -> int:
    """Returns how many files a split is written to."""
    return data.shards.get(split, 1)  # type: ignore[call-overload]


def place(keys: pa.BinaryArray, split: str, data: config.Data) -> Places:
    """Decides on rows that were read from the inputs of `split`."""
    bits = _hash(keys, data.eval.salt)
    splits = np.full(len(keys), SPLITS.index(split), np.uint8)
    if cuts_eval(data, split):
        splits[bits[:, 0] < np.uint64(int(data.eval.share * 2.0**64))] = _EVAL
    order = _mix(bits[:, 1] ^ _mix(np.array([data.seed % 2**64], np.uint64)))
    # Mixed once more, so that being in the same shard says nothing about the order there.
    shards = np.array([shards_of(data, name) for name in SPLITS], np.uint64)
    return Places(splits, (_mix(order) % shards[splits]).astype(np.uint32), order)


def _hash(keys: pa.BinaryArray, salt: str) -> np.ndarray:
    """Returns 128 bits a key as uint64 [rows, 2]: the first for the split, the other for order.

    Each half starts from its own bits of the salt's hash and takes in a key's length, then its
    bytes, eight at a time. It keeps no secret, but is even in every bit, and takes a seventh of the
    time of a hash that is called row by row.
    """
    if binary.lengths(keys).max(initial=0) > _LONG_KEY:
        keys = pa.array([_shortened(key) for key in binary.values(keys)], pa.binary())
    salted = np.frombuffer(hashlib.blake2b(salt.encode(), digest_size=16).digest(), "<u8")
    lengths = binary.lengths(keys).astype(np.int64)
    words = _words(binary.data(keys), lengths)
    found = _mix(salted[None, :] ^ lengths.astype(np.uint64)[:, None])
    for index in range(words.shape[1]):
        # Words behind the end of a key are padding for longer ones.
        within = (lengths > 8 * index)[:, None]
        found = np.where(within, _mix(found ^ words[:, index, None]), found)
    return found


def _shortened(key: bytes) -> bytes:
    """Replaces a key that would make `_words` of its batch large."""
    return key if len(key) <= _LONG_KEY else hashlib.blake2b(key).digest()


def _words(content: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns the bytes of each key as little-endian uint64 [rows, words], filled up with zeros."""
    width = -(-int(lengths.max(initial=0)) // 8) * 8
    padded = np.zeros((len(lengths), width), np.uint8)
    padded[np.arange(width) < lengths[:, None]] = content
    return padded.view("<u8")


def _mix(value: np.ndarray) -> np.ndarray:
    """Maps uint64 to uint64 one to one, every bit out depending on every bit in.

    The finalizer of splitmix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number
    generators"); arithmetic wraps around.
    """
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
