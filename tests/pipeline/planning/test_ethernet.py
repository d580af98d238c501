"""Bytes on a network, against what packets come to."""

from __future__ import annotations

import pytest

from pipeline.planning import ethernet


def test_each_segment_has_headers_and_each_second_one_an_acknowledgement():
    assert (ethernet.PAYLOAD, ethernet.HEADERS) == (1448, 66)
    assert ethernet.count_wire_bytes(1448.0, received=0.0) == 1448 + 66
    assert ethernet.count_wire_bytes(0.0, received=2 * 1448.0) == 66
    assert ethernet.count_wire_bytes(1448.0 * 10, received=1448.0 * 10) == 14480 + 15 * 66


def test_a_ring_of_two_sends_what_a_real_one_did():
    """Of 952,784 bytes a step on a loopback, 1.026 MB went over an Ethernet."""
    assert ethernet.count_wire_bytes(952_784.0, received=952_784.0) == pytest.approx(
        1.026e6, rel=0.01
    )
