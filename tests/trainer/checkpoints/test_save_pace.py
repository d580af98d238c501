import pytest

from pipeline import errors
from trainer.checkpoints.save_pace import SavePace


def saves(folder: str, times: list[float], save_steps: int = 20) -> None:
    left = iter(times)
    pace = SavePace(folder, save_steps, clock=lambda: next(left))
    for number in range(len(times)):
        pace(number * save_steps, 0.1)


def test_saves_that_come_too_fast_for_gs_are_refused_with_the_reason():
    with pytest.raises(
        errors.UsageError,
        match=r"train.save_steps=20: a save every 0.5 s, but Cloud Storage takes one write a "
        r"second .* Use train.save_steps=400 \(every 10 s\), or a disk",
    ):
        saves("gs://bucket/run", [0, 0.5, 1.0, 1.5])


@pytest.mark.parametrize("times", [[0, 0.5, 1.0], [0, 1.2, 2.4, 3.6, 4.8], [0, 5, 10, 10.1]])
def test_one_that_comes_soon_after_another_is_no_harm(times):
    saves("gs://bucket/run", times)


def test_a_disk_takes_any_number():
    saves("/run", [0.0] * 10)
