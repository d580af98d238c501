"""What reading records from gs:// costs: counted at the service."""

import pytest

from tests.cloud import reader


def _of_records(cloud):
    return [s for s in cloud.api.asked_of_storage if ".tfrecord" in s.path and s.method == "GET"]


@pytest.mark.slow
def test_few_more_bytes_are_sent_than_used(cloud, tmp_path):
    """Blocks of 12 KB, from places all over shards that are much larger."""
    reader.put(cloud, tmp_path / "made", shards=4, records=16 * reader.BLOCK)
    cloud.api.seen.clear()
    read = reader.run(cloud, batches=70)
    seen = _of_records(cloud)
    size = sum(path.stat().st_size for path in (tmp_path / "made").rglob("*.tfrecord"))
    # One of two readers reads half of an epoch, in whole blocks, and what it reads ahead.
    blocks = len([one for one in seen if one.received > 5000])
    assert read["records"] == 7000 and 28 <= blocks <= 64
    sent = sum(one.received for one in seen)
    assert sent <= 1.5 * blocks * size / 64, (sent, blocks, size)
