from __future__ import annotations

import pytest

from pipeline.scripts.output import LogFollower


@pytest.fixture
def output(tmp_path):
    return LogFollower(str(tmp_path / "log"))


@pytest.mark.parametrize(
    ("line", "step", "loss"),
    [
        ("INFO:tensorflow:loss = 0.71, step = 200 (0.4 sec)", 200, 0.71),
        ("I1122 10:00:00.1 140 hooks.py:262] loss = 1.5e-05, step = 0", 0, 1.5e-05),
        ("INFO:tensorflow:step = 7, loss = -2", 7, -2.0),
        ("INFO:tensorflow:Saving checkpoints for 300 into /m/model.ckpt.", 300, None),
        ("global_step=12 whatever", 12, None),
        ("INFO:tensorflow:global_step/sec: 98.2", None, None),
        ("Restoring parameters from /m/step=3/model.ckpt-200", None, None),
        ("loss = nan, step = 5", 5, None),
        ("loss = 1.2.3, step = 5", 5, None),
        ("INFO:tensorflow:Loss for final step: 5.", None, None),
        ("INFO:tensorflow:Loss for final step: 3.87e-13.", None, None),
        ("timestep = 5", None, None),
        (f"step = {'9' * 5001}, loss = 2", None, None),
        ("step = 5/100", None, None),
    ],
)
def test_steps_and_losses_are_read_from_lines(output, line, step, loss):
    output.see(line)
    assert (output.step, output.loss) == (step, loss)


def test_an_evaluation_is_no_step_of_training(output):
    output.see(
        "INFO:tensorflow:Saving dict for global step 200: acc/a = 0.5, average_loss = 1e-3, "
        "global_step = 200, label = [1 2], loss = 0.3"
    )
    assert output.step is None
    assert output.evaluation == {"step": 200, "acc/a": 0.5, "average_loss": 0.001, "loss": 0.3}


def test_a_log_is_followed_from_its_present_end_and_by_whole_lines(tmp_path):
    path = tmp_path / "log"
    path.write_text("step = 1\n")
    output = LogFollower(str(path))
    with path.open("ab") as file:
        for part, step in ((b"loss = 2.0, st", None), (b"ep = 55", None), (b"\n\xff\n", 55)):
            file.write(part)
            file.flush()
            output.follow()
            assert output.step == step
    assert (output.loss, output.last) == (2.0, "\ufffd")
