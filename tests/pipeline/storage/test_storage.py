import os
import re
import threading

import pytest

from pipeline import errors, storage


@pytest.mark.parametrize(
    ("path", "remote"), [("a/b", False), ("/a", False), ("gs://bucket/a", True), ("a:b", False)]
)
def test_what_is_remote(path, remote):
    assert storage.is_remote(path) is remote


@pytest.mark.parametrize("path", ["s3://b/x", "http://h/x", "hdfs://h/x"])
def test_other_schemes_are_refused(path):
    with pytest.raises(errors.UsageError, match=r":// is not supported; use a folder or gs://"):
        storage.is_remote(path)


@pytest.mark.parametrize(
    ("parts", "joined"),
    [
        (("a", "b"), "a/b"),
        (("/a/", "b", "c"), "/a/b/c"),
        (("gs://bucket/x", "y"), "gs://bucket/x/y"),
        (("gs://bucket/", "y"), "gs://bucket/y"),
        (("a", "/b"), "/b"),
        (("a", "gs://b/c"), "gs://b/c"),
        (("/a", "../b"), "/b"),
    ],
)
def test_joining(parts, joined):
    assert storage.join(*parts) == joined


def test_absolute_paths_mean_the_same_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert storage.make_absolute("x") == str(tmp_path / "x")
    assert storage.make_absolute("~/x") == os.path.expanduser("~/x")
    assert storage.make_absolute("gs://b/x") == "gs://b/x"


@pytest.mark.parametrize("root", ["/root", "gs://bucket/root"])
@pytest.mark.parametrize(
    "name", ["", "..", "../x", "a/b", "/etc", ".hidden", "a\x00b", "a\n", "gs://x", "A", "x" * 64]
)
def test_names_cannot_leave_the_root(root, name):
    with pytest.raises(errors.UsageError, match=re.escape(f"name {name!r}: must be 1 to 63 of")):
        storage.child(root, name)


def test_links_cannot_leave_the_root_either(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "run").symlink_to(outside)
    with pytest.raises(errors.UsageError, match=r"name 'run': leads out of"):
        storage.child(str(root), "run")


def test_children_lie_below_the_root(tmp_path):
    assert storage.child(str(tmp_path), "run-1.a") == f"{tmp_path}/run-1.a"
    assert storage.child("gs://b/root", "run") == "gs://b/root/run"


def test_files_appear_whole_and_leave_no_traces(tmp_path):
    path = tmp_path / "f"
    for text in ("one", "grüße\n"):
        storage.write_text(str(path), text)
        assert storage.read_text(str(path)) == text
    assert os.listdir(tmp_path) == ["f"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "f"
    storage.write_text(str(path), "old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(errors.RetryableError, match=r"cannot write .*No space.*Free some space"):
        storage.write_text(str(path), "new")
    assert os.listdir(tmp_path) == ["f"] and storage.read_text(str(path)) == "old"


def test_a_write_below_a_file_is_the_users_error(tmp_path):
    (tmp_path / "f").write_text("")
    with pytest.raises(errors.UsageError, match=r"cannot write .*Not a directory.*STORAGE="):
        storage.write_text(str(tmp_path / "f" / "g"), "x")
    with pytest.raises(errors.UsageError, match=r"cannot create folder"):
        storage.makedirs(str(tmp_path / "f" / "g"))


def test_reading(tmp_path):
    with pytest.raises(FileNotFoundError):
        storage.read_text(str(tmp_path / "absent"))
    (tmp_path / "binary").write_bytes(b"\xff\xff")
    with pytest.raises(errors.DataError, match="not UTF-8 text"):
        storage.read_text(str(tmp_path / "binary"))


def test_listing_sizes_and_removal(tmp_path):
    root = str(tmp_path / "root")
    assert storage.listdir(root) == [] and not storage.exists(root)
    storage.makedirs(storage.join(root, "sub"))
    storage.write_text(storage.join(root, "b"), "123")
    assert storage.listdir(root) == ["b", "sub"]
    assert storage.size(storage.join(root, "b")) == 3
    with pytest.raises(FileNotFoundError):
        storage.size(storage.join(root, "c"))
    for name in ("b", "sub", "absent"):
        storage.remove(storage.join(root, name))
    assert storage.listdir(root) == []


def test_removing_a_link_spares_what_it_points_at(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "f").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    storage.remove(str(tmp_path / "link"))
    assert (tmp_path / "kept" / "f").exists() and not (tmp_path / "link").exists()


def test_patterns_find_files_in_order(tmp_path):
    for name in ("b", "a", "deep/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = storage.glob(str(tmp_path / "**" / "*"))
    assert found == [str(tmp_path / name) for name in ("a", "b", "deep/c")]
    assert storage.glob(str(tmp_path / "*.csv")) == []


def test_folders_and_files_that_are_called_like_patterns(tmp_path):
    folder = tmp_path / "[a]*"
    folder.mkdir()
    (folder / "f?").touch()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "g").touch()
    assert storage.glob(f"{folder}/*") == [str(folder / "f?")]
    assert storage.glob(f"{tmp_path}/[a]/*") == [str(tmp_path / "a" / "g")]
    assert not storage.has_wildcard(str(folder / "f?"))
    assert storage.has_wildcard(f"{folder}/*") and storage.has_wildcard(f"{tmp_path}/[a]/g")


@pytest.mark.parametrize(
    ("pattern", "above", "below"),
    [
        ("a.csv", "", "a.csv"),
        ("/a/b.csv", "/a/", "b.csv"),
        ("a/*/b-?.csv", "a/", "*/b-?.csv"),
        ("gs://bucket/a/[0-9]/b", "gs://bucket/a/", "[0-9]/b"),
    ],
)
def test_where_the_first_wildcard_is(pattern, above, below):
    assert storage.split_at_wildcard(pattern) == (above, below)
    assert storage.has_wildcard(pattern) == ("[" in below or "*" in below)


def test_a_disk_with_room_is_not_full(tmp_path):
    assert not storage.is_full(str(tmp_path))
    assert not storage.is_full("gs://bucket/run")


def test_what_a_killed_process_had_begun_to_write_is_swept(tmp_path):
    folder = tmp_path / "run [1]" / "status"
    folder.mkdir(parents=True)
    names = ["a.json.12-0f.tmp", "b.json.12-1f.tmp", "a.json.123-0f.tmp", "a.json", "12-0f.tmp"]
    for name in names:
        (folder / name).write_text("half")
    storage.sweep(str(tmp_path / "run [1]"), 12)
    assert sorted(path.name for path in folder.iterdir()) == sorted(names[2:])


def test_a_new_file_is_not_put_over_another(tmp_path):
    path = str(tmp_path / "f")
    storage.write_text(path, "one", new=True)
    with pytest.raises(FileExistsError):
        storage.write_text(path, "two", new=True)
    assert storage.read_text(path) == "one"


def test_copies(tmp_path):
    (tmp_path / "a").write_bytes(b"data")
    storage.copy(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "b").read_bytes() == b"data"
    with pytest.raises(FileNotFoundError):
        storage.copy(str(tmp_path / "absent"), str(tmp_path / "c"))


def test_a_folder_is_published_as_a_whole(tmp_path):
    made, target = tmp_path / "made", tmp_path / "export" / "7"
    (made / "variables").mkdir(parents=True)
    (made / "saved_model.pb").write_text("model")
    storage.publish_folder(str(made), str(target), last="saved_model.pb")
    assert (target / "saved_model.pb").read_text() == "model"
    assert (target / "variables").is_dir()
    assert not made.exists()


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_folder_takes_the_place_of_another(tmp_path, monkeypatch, exchanges):
    """Also where the file system cannot exchange two folders."""
    if not exchanges:
        monkeypatch.setattr(storage, "exchange", lambda one, other: False)
    made, target = tmp_path / "made", tmp_path / "7"
    for folder, text in ((target, "old"), (made, "new")):
        folder.mkdir()
        (folder / "saved_model.pb").write_text(text)
    (target / "only-in-old").touch()
    storage.replace_folder(str(made), str(target), last="saved_model.pb")
    assert [path.name for path in target.iterdir()] == ["saved_model.pb"]
    assert (target / "saved_model.pb").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["7"]


def test_a_reader_never_misses_a_folder_that_is_replaced(tmp_path):
    target = tmp_path / "7"
    target.mkdir()
    if not storage.exchange(str(target), str(tmp_path / "7")):
        pytest.skip("this file system cannot exchange folders")
    (target / "saved_model.pb").write_text("0")
    missed, ended = [], threading.Event()

    def look():
        while not ended.is_set():
            if not (target / "saved_model.pb").exists():
                missed.append(True)

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(200):
        made = tmp_path / "made"
        made.mkdir()
        (made / "saved_model.pb").write_text(str(number))
        storage.replace_folder(str(made), str(target), last="saved_model.pb")
    ended.set()
    reader.join()
    assert not missed


def test_the_folder_of_a_text_is_made_when_it_is_missing(tmp_path):
    path = storage.join(str(tmp_path), "a", "b", "c")
    with pytest.raises(errors.UsageError, match="No such file or directory"):
        storage.write_text(path, "x")
    for text in ("x", "y"):
        storage.write_text(path, text, parents=True)
        assert storage.read_text(path) == text
    with pytest.raises(errors.UsageError, match=r"Not a directory|File exists"):
        storage.write_text(storage.join(path, "d"), "x", parents=True)


def test_a_folder_that_another_makes_at_the_same_moment_is_no_failure(tmp_path, monkeypatch):
    """Two processes that write the first files of a folder: to one it was missing, then there."""
    path = tmp_path / "status" / "chief-0.json"
    monkeypatch.setattr(os.path, "isdir", lambda folder: True)
    storage.write_text(str(path), "{}", parents=True)
    assert path.read_text() == "{}"
