import threading

import tensorflow as tf

from trainer.monitoring import event_files

Cache = tf.compat.v1.summary.FileWriterCache


def write(logdir: str, step: int) -> None:
    """As hooks do, which run in a graph."""
    with tf.Graph().as_default():
        event_files.write(logdir, step, {"x": step}, flush=True)


def steps(data: bytes, tmp_path) -> list[int]:
    path = tmp_path / "events"
    path.write_bytes(data)
    found = tf.compat.v1.train.summary_iterator(str(path))
    return [event.step for event in found if event.summary.value]


def test_all_writers_of_a_run_are_copied_at_its_end(cloud, tmp_path):
    run = cloud.path("run")
    with event_files.write_locally(run):
        for step in (1, 2):
            write(run, step)
            write(f"{run}/eval", 10 * step)
        assert cloud.names() == []
    first, second = cloud.names()
    assert first.startswith("run/eval/events.out.") and second.startswith("run/events.out.")
    assert steps(cloud.data(first), tmp_path) == [10, 20]
    assert steps(cloud.data(second), tmp_path) == [1, 2]


def test_they_are_copied_to_where_a_platform_looks_for_them_too(cloud):
    run = cloud.path("run")
    with event_files.write_locally(run, cloud.path("run/logs/")):
        write(run, 1)
        write(f"{run}/eval", 10)
    written = {name: cloud.data(name) for name in cloud.names() if "/logs/" not in name}
    assert len(written) == 2
    for name, data in written.items():
        assert cloud.data(name.replace("run/", "run/logs/")) == data


def test_a_hundred_flushes_cost_no_upload_each(cloud):
    run = cloud.path("run")
    cloud.api.seen.clear()
    with event_files.write_locally(run):
        for step in range(100):
            write(run, step)
    uploads = [seen for seen in cloud.api.seen if seen.sent and "/upload/" in seen.path]
    assert len(uploads) == 1
    assert uploads[0].sent < 2 * len(cloud.data(cloud.names()[0])) + 1000


def test_folders_of_others_and_of_workers_stay_where_they_are(tmp_path):
    places = event_files.EventFileCopies(str(tmp_path), "gs://bucket/run")
    assert places.place("gs://bucket/run-2") == "gs://bucket/run-2"
    assert places.place("/local") == "/local"
    assert places.place("gs://bucket/run/tmp_worker_0") == str(tmp_path / "tmp_worker_0")


def test_a_run_on_a_disk_is_left_alone(tmp_path):
    original, threads = Cache.get, threading.active_count()
    with event_files.write_locally(str(tmp_path)):
        assert Cache.get is original
        assert threading.active_count() == threads
