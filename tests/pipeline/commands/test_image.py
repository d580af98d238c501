"""What `image` refuses before it builds anything."""

from __future__ import annotations

from tests.support import commands


def test_without_a_name_it_says_how_to_give_one():
    line = commands.read_error_line(commands.run_pipeline("image"))
    assert line.startswith("error: image: name it: estimator-pipeline image --image=")


def test_a_builder_that_does_not_exist_is_refused():
    done = commands.run_pipeline("image", "--image=r/p:1", "--builder=make")
    assert "--builder=make" in commands.read_error_line(done)
