"""The command: which records it walks, its exit codes, and that it needs no TensorFlow."""

from __future__ import annotations

import shutil

from pipeline.records import manifest
from tests.support import commands


def _verify(*arguments):
    return commands.run("pipeline.commands.verify", *arguments)


def test_by_config_by_folder_and_repaired(small_records, tmp_path):
    by_config = _verify(
        f"--config={small_records.config_path}", f"--storage={small_records.storage}"
    )
    assert (by_config.returncode, by_config.stderr) == (0, "")
    assert by_config.stdout.startswith(f"{small_records.folder}: intact, ")
    folder = tmp_path / "copy"
    shutil.copytree(small_records.folder, folder)
    shard = small_records.contents.splits["train"].shards[1]
    content = bytearray((folder / shard.path).read_bytes())
    content[shard.blocks[2] + 20] ^= 1
    (folder / shard.path).write_bytes(content)
    damaged = _verify(f"--records={folder}")
    assert damaged.returncode == 65
    where = f"{folder / shard.path}: block 2, byte {shard.blocks[2]}, record 64: the CRC"
    assert damaged.stdout.startswith(where)
    assert len(damaged.stderr.splitlines()) == 1
    assert damaged.stderr.startswith("error: 1 of 6 shards are damaged")
    repaired = _verify(f"--records={folder}", "--repair")
    assert (repaired.returncode, repaired.stderr) == (0, "")
    left = manifest.read(str(folder)).splits["train"].records
    assert left == small_records.contents.splits["train"].records - shard.records
    assert _verify(f"--records={folder}").returncode == 0


def test_no_records(tmp_path):
    line = commands.read_error_line(_verify(f"--records={tmp_path}"), 65)
    assert "no manifest" in line
