"""Real checkpoints of one small variable, and which ones a folder has."""

from __future__ import annotations

import pathlib

import tensorflow as tf

from trainer.checkpoints import checkpoint_files


def save(folder: pathlib.Path, *steps: int) -> list[str]:
    """Saves one variable and the global step, once for each of `steps`."""
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        v1.get_variable("weights", [100], initializer=v1.zeros_initializer())
        saver = v1.train.Saver()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            paths = []
            for number in steps:
                session.run(step.assign(number))
                paths.append(saver.save(session, str(folder / "model.ckpt"), global_step=step))
    return paths


def steps(folder: pathlib.Path) -> list[int]:
    """Returns the steps of all checkpoints there are files of."""
    names = {path.name.split(".")[1] for path in folder.glob("model.ckpt-*.*")}
    return sorted(int(name.partition("-")[2]) for name in names)


def list_known_steps(folder: pathlib.Path) -> list[int]:
    """Returns the steps of the checkpoints that TensorFlow knows of, oldest first."""
    state = tf.train.get_checkpoint_state(str(folder))
    return [int(path.rpartition("-")[2]) for path in state.all_model_checkpoint_paths]


def cut(path: pathlib.Path, size: int) -> None:
    """Cuts a file off after `size` bytes."""
    with path.open("r+b") as file:
        file.truncate(size)


def cut_data(prefix: str) -> None:
    """Cuts the data of a checkpoint off."""
    cut(pathlib.Path(f"{prefix}.data-00000-of-00001"), 200)


def flip_data(prefix: str) -> None:
    """Alters one bit of the data of a checkpoint."""
    path = pathlib.Path(f"{prefix}.data-00000-of-00001")
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


def remove(prefix: str) -> None:
    """Removes all files of a checkpoint."""
    for path in pathlib.Path(prefix).parent.glob(f"{pathlib.Path(prefix).name}.*"):
        path.unlink()


def remove_after_reading(monkeypatch, *steps: int) -> None:
    """Removes the checkpoints of these steps just after their step was read, as training does when
    it saves."""
    real = checkpoint_files.read_step

    def read_step(path: str) -> int:
        step = real(path)
        if step in steps:
            remove(path)
        return step

    monkeypatch.setattr(checkpoint_files, "read_step", read_step)
