from pipeline.runs import run_folder
from pipeline.supervision.pace import Pace


def test_pace_dates_the_first_step_by_the_first_loss_and_the_last_by_its_number():
    pace = Pace(140)
    for time, step, loss in ((10.0, 100, None), (11.5, 101, 0.5), (13.0, 141, 0.4), (19.0, 141, 1)):
        pace.see([run_folder.Status("chief-0", 1, "h", "training", time, step=step, loss=loss)])
    assert (pace.start_step, pace.first_step_at) == (100, 11.5)
    assert (pace.newest_step, pace.trained_at) == (141, 13.0)


def test_the_chief_knows_how_many_steps_its_epochs_come_to():
    pace = Pace(712)
    for step in (400, 534):
        status = run_folder.Status("chief-0", 1, "h", "training", step, step=step, max_steps=534)
        pace.see([status])
    assert (pace.steps, pace.trained_at) == (534, 534)
