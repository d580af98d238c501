"""Checksums of parts against one of the whole."""

from __future__ import annotations

import google_crc32c
from hypothesis import given
from hypothesis import strategies as st

from pipeline.storage import checksums


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_that_of_the_whole_follows_from_those_of_the_parts(first, second):
    crcs = google_crc32c.value(first), google_crc32c.value(second)
    assert checksums.combine(*crcs, len(second)) == google_crc32c.value(first + second)


def test_checksums_of_large_parts_are_combined():
    crc = google_crc32c.value(b"abc")
    for length in (1 << 20, (1 << 24) + 12345):
        zeros = bytes(length)
        whole = checksums.combine(crc, google_crc32c.value(zeros), length)
        assert whole == google_crc32c.value(b"abc" + zeros)
