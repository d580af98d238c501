"""Google's client against the protocol of Cloud Storage: see tests/cloud."""

import io

import pyarrow as pa
import pytest

from pipeline import errors, storage
from pipeline.runs import run_folder
from pipeline.storage import gcs_client
from tests.cloud.faults import PYTHON


def test_what_is_written_can_be_read_listed_and_removed(cloud):
    path = cloud.path("a/b.txt")
    assert not storage.exists(path)
    assert storage.listdir(cloud.root) == []
    storage.write_text(path, "grüße")
    assert storage.read_text(path) == "grüße"
    assert storage.exists(path) and storage.exists(cloud.path("a")) and storage.exists(cloud.root)
    assert storage.size(path) == 7
    assert storage.get_modified_time(path) > 1.7e9
    cloud.put("a/c/d", b"")
    assert storage.listdir(cloud.path("a")) == ["b.txt", "c"]
    assert storage.listdir(cloud.root) == ["a"]
    storage.remove(cloud.path("a"))
    assert cloud.names() == []
    storage.remove(cloud.path("a"))  # absent is fine


def test_a_folder_is_not_what_only_begins_like_it(cloud):
    cloud.put("run-10/x", b"")
    assert not storage.exists(cloud.path("run-1"))
    assert storage.listdir(cloud.path("run-1")) == []
    storage.remove(cloud.path("run-1"))
    assert cloud.names() == ["run-10/x"]


def test_folder_markers_of_tensorflow_are_no_files(cloud):
    cloud.put("run/", b"")
    cloud.put("run/x", b"")
    assert storage.listdir(cloud.path("run")) == ["x"]
    assert storage.glob(cloud.path("run/*")) == [cloud.path("run/x")]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("in/*.csv", ["in/a.csv", "in/b.csv"]),
        ("in/[!a].csv", ["in/b.csv"]),
        ("in/?.gz", ["in/a.gz"]),
        ("**/*.csv", ["in/a.csv", "in/b.csv", "in/deep/er/a.csv"]),
        ("in/*/*/a.csv", ["in/deep/er/a.csv"]),
        ("in/a.csv", ["in/a.csv"]),
        ("in/a+.csv", []),
    ],
)
def test_patterns(cloud, pattern, found):
    for name in ("in/a.csv", "in/b.csv", "in/a.gz", "in/deep/er/a.csv", "other"):
        cloud.put(name, b"")
    assert storage.glob(cloud.path(pattern)) == [cloud.path(name) for name in found]


def test_long_listings_come_in_pages(cloud):
    for number in range(130):
        cloud.put(f"many/{number:03d}", b"")
    assert len(storage.listdir(cloud.path("many"))) == 130
    storage.remove(cloud.path("many"))
    assert cloud.names() == []


def test_files_are_read_by_ranges(cloud):
    content = bytes(range(256)) * 40_000
    path = cloud.put("large", content)
    with storage.open_file(path) as file:
        assert file.read(10) == content[:10]
        assert file.seek(-6, io.SEEK_END) == len(content) - 6
        assert file.read() == content[-6:]
        assert file.read(1) == b""
        file.seek(5_000_000)
        assert file.read(3) == content[5_000_000:5_000_003]
        file.seek(0)
        assert file.read() == content
    assert storage.open_file(cloud.put("empty", b"")).read() == b""


def test_a_file_that_is_replaced_while_it_is_read_is_not_mixed_with_the_new_one(cloud):
    path = cloud.put("large", b"a" * 10_000_000)
    with storage.open_file(path) as file:
        file.read(1)
        cloud.put("large", b"b" * 10_000_000)
        with pytest.raises(errors.RetryableError, match=r"large'.*another process wrote it"):
            file.read()


def test_large_files_are_written_in_parts_and_appear_at_once(cloud):
    batch = pa.record_batch({"x": pa.array(range(3_000_000))})
    path = cloud.path("table.arrow")
    with storage.open_file(path, "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
        assert cloud.names() == []
    with storage.open_file(path) as file:
        assert pa.ipc.open_file(file).get_batch(0).equals(batch)


def test_what_failed_half_way_is_never_there(cloud):
    with pytest.raises(ZeroDivisionError), storage.open_file(cloud.path("x"), "wb") as file:
        file.write(b"1" * 20_000_000)
        raise ZeroDivisionError
    assert cloud.names() == []


def test_a_new_file_is_made_once(cloud):
    path = cloud.path("marker")
    storage.write_text(path, "one", new=True)
    storage.write_text(path, "one", new=True)  # as after an answer that was lost
    with pytest.raises(FileExistsError):
        storage.write_text(path, "two", new=True)
    assert storage.read_text(path) == "one"


def test_every_write_is_conditional_on_what_was_there(cloud):
    cloud.api.seen.clear()
    for text in ("one", "two"):
        storage.write_text(cloud.path("status"), text)
    conditions = [
        seen.path.partition("ifGenerationMatch=")[2]
        for seen in cloud.api.seen
        if "/upload/" in seen.path
    ]
    assert len(conditions) == 2
    assert conditions[0] == "0" and int(conditions[1]) > 0


def test_a_write_whose_answer_is_lost_is_not_made_twice(cloud):
    cloud.fault("POST .*/upload/", kind="lose_answer")
    storage.write_text(cloud.path("x"), "text")
    assert cloud.data("x") == b"text"
    assert [s.status for s in cloud.api.seen if "/upload/" in s.path][-2:] == [200, 412]


def test_copies_need_no_download(cloud):
    source, target = cloud.put("a", b"data"), cloud.path("b")
    cloud.api.seen.clear()
    storage.copy(source, target)
    assert cloud.data("b") == b"data"
    assert not [s for s in cloud.api.seen if "alt=media" in s.path]


def test_a_published_folder_appears_by_its_last_file(cloud, tmp_path):
    made = tmp_path / "model"
    (made / "variables").mkdir(parents=True)
    for name in ("saved_model.pb", "variables/variables.index", "zzz"):
        (made / name).write_text(name)
    storage.publish_folder(str(made), cloud.path("export/7"), last="saved_model.pb")
    assert cloud.names() == [
        "export/7/saved_model.pb",
        "export/7/variables/variables.index",
        "export/7/zzz",
    ]
    by_age = sorted(cloud.names(), key=lambda name: storage.get_modified_time(cloud.path(name)))
    assert by_age[-1] == "export/7/saved_model.pb"
    assert not made.exists()


@pytest.mark.parametrize("status", [503, 500, 429, 408])
def test_passing_trouble_is_waited_out(cloud, status):
    path = cloud.put("x", b"text")
    fault = cloud.fault("/x", status=status, times=2, client=PYTHON)
    assert storage.read_text(path) == "text"
    assert fault.times == 0


def test_uploads_that_are_cut_are_sent_again(cloud):
    content = bytes(range(256)) * 100_000
    fault = cloud.fault("PUT ", kind="cut_upload", times=2)
    with storage.open_file(cloud.path("large"), "wb") as file:
        file.write(content)
    assert fault.times == 0
    assert cloud.data("large") == content


@pytest.mark.parametrize("kind", ["cut_download", "slow_download"])
def test_downloads_that_are_cut_or_slow_are_complete(cloud, kind):
    content = bytes(range(256)) * 1000
    path = cloud.put("x", content)
    fault = cloud.fault("alt=media", kind=kind)
    with storage.open_file(path) as file:
        assert file.read() == content
    assert fault.times == 0


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, r"injected \(401\): Google does not accept the credentials. Log in with gcloud"),
        (403, r"\(403\): the credentials are valid, but not enough. Grant them roles/storage"),
    ],
)
def test_refusals_say_what_to_do(cloud, status, words):
    path = cloud.put("x", b"")
    cloud.fault("/x", status=status, times=1000)
    for act in (storage.read_text, storage.size, storage.exists, storage.remove):
        with pytest.raises(errors.UsageError, match=words):
            act(path)
    with pytest.raises(errors.UsageError, match=words):
        storage.write_text(path, "text")
    assert cloud.data("x") == b""


def test_a_missing_object_is_distinguished_from_a_missing_bucket(cloud):
    with pytest.raises(FileNotFoundError):
        storage.read_text(cloud.path("nothing"))
    with pytest.raises(FileNotFoundError):
        storage.open_file(cloud.path("nothing"))
    for act in (storage.listdir, storage.makedirs):
        with pytest.raises(
            errors.UsageError, match=r"bucket does not exist \(404\). Make it with gcloud storage"
        ):
            act("gs://another/x")
    with pytest.raises(errors.UsageError, match="'gs://': names no bucket"):
        storage.exists("gs://")


def test_trouble_that_stays_is_reported(cloud):
    path = cloud.put("x", b"")
    cloud.fault("/x", status=503, times=100)
    with (
        gcs_client.patience(0.1),
        pytest.raises(errors.RetryableError, match=r"\(503\)|cannot be reached"),
    ):
        storage.read_text(path)


def test_a_service_that_is_not_there_is_reported(cloud, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with (
        gcs_client.patience(0.1),
        pytest.raises(errors.RetryableError, match=r"cannot be reached .* Look at the network"),
    ):
        storage.read_text(cloud.path("x"))


def test_a_status_is_written_without_a_listing(cloud):
    run = run_folder.RunFolder(cloud.path("out/runs/r"))
    status = run_folder.Status("chief-0", 1, "h", "training", 1.0)
    cloud.api.seen.clear()
    run_folder.write_status(run, status)
    asked = [seen.path for seen in cloud.api.asked_of_storage if "status" in seen.path]
    assert asked and not [path for path in asked if "prefix=" in path]
