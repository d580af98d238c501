from pipeline.launchers import container
from pipeline.runs import fatal
from tests.pipeline.jobs.jobs import plan


def test_a_process_knows_its_run_and_submission_but_not_its_role():
    words = container.arguments(plan(), "gs://my-bucket/config.yaml")
    assert words[:2] == ["-m", "trainer.task"] and "--run=r1" in words
    assert not any("job_name" in word for word in words)
    assert {"name": fatal.SUBMISSION, "value": "s"} in container.environment(plan(), "s")
