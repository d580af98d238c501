"""What a network adds to bytes that were counted on a loopback, whose packets are up to 64 kB."""

from __future__ import annotations

# An IP packet has at most 1500 bytes (RFC 894). Of these IP takes 20 (RFC 791), TCP 20 (RFC 9293),
# TCP's timestamps 12 (RFC 7323). The header of Ethernet, of 14, comes on top.
_PACKET, _TCP_IP, _FRAME = 1500, 20 + 20 + 12, 14
PAYLOAD, HEADERS = _PACKET - _TCP_IP, _TCP_IP + _FRAME
# At least every second segment is acknowledged (RFC 5681, section 4.2), by a packet of headers.
SEGMENTS_PER_ACKNOWLEDGEMENT = 2
# What Linux hands to a link at once (GSO_LEGACY_MAX_SIZE): small messages wait behind that.
BURST = 65536


def count_wire_bytes(sent: float, *, received: float) -> float:
    """Returns the bytes that a machine puts on an Ethernet for so many `sent` and `received`."""
    packets = sent / PAYLOAD + received / PAYLOAD / SEGMENTS_PER_ACKNOWLEDGEMENT
    return sent + HEADERS * packets
