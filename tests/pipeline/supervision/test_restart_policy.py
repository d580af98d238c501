import dataclasses

import pytest

from pipeline import errors
from pipeline.cluster import topology
from pipeline.runs.run_folder import Status
from pipeline.runs.run_record import Restart
from pipeline.supervision import restart_policy
from pipeline.supervision.restart_policy import Loss, Policy, Recovery

WORKER = topology.Task("worker", 0, {"chief": ("h:1",), "worker": ("h:2",), "ps": ("h:3",)})
EVALUATOR = topology.Task("evaluator", 0, {})


def loss(code=-9, cause="killed", *, worked=True, task=WORKER, reached=None, evaluating=None):
    evaluating = task is EVALUATOR if evaluating is None else evaluating
    return Loss(task, code, cause, worked=worked, reached=reached, evaluating=evaluating)


@pytest.mark.parametrize("code", [64, 65, 70])
@pytest.mark.parametrize("unit", ["task", "gang"])
def test_final_codes_are_never_tried_again(code, unit):
    decision = Policy(unit).decide(loss(code), 0.0)
    assert (decision.action, decision.code) == ("fail", code)


@pytest.mark.parametrize(
    ("code", "of_run"), [(1, 1), (9, 1), (255, 1), (-9, 75), (75, 75), (0, 75)]
)
@pytest.mark.parametrize("worked", [True, False])
def test_a_run_ends_with_an_exit_code_of_commands_whatever_that_of_its_process(
    code, of_run, worked
):
    policy = Policy("task", most=3)
    decisions = [policy.decide(loss(code, worked=worked), 0.0) for _ in range(4)]
    last = next(one for one in decisions if one.action == "fail")
    assert last.code == of_run


@pytest.mark.parametrize("code", [-9, -11, 1, 75, 0])
def test_what_is_restarted_depends_on_the_strategy_but_the_evaluator_is_alone(code):
    assert Policy("task").decide(loss(code), 0.0).action == "task"
    assert Policy("gang").decide(loss(code), 0.0).action == "gang"
    assert Policy("gang").decide(loss(code, task=EVALUATOR), 0.0).action == "task"


def test_pauses_grow_and_attempts_end():
    policy = Policy("task", most=4, delays=(0.0, 1.0, 2.0))
    decisions = [policy.decide(loss(), float(time)) for time in range(5)]
    assert [d.delay for d in decisions] == [0.0, 1.0, 2.0, 2.0, 0.0]
    assert [d.action for d in decisions] == ["task"] * 4 + ["fail"]
    assert decisions[-1].code == 75, "a killed process may well work the next time"


@pytest.mark.parametrize("unit", ["task", "gang"])
@pytest.mark.parametrize("task", [WORKER, EVALUATOR])
def test_what_makes_no_progress_ends_the_run_however_slowly_it_fails(unit, task):
    policy = Policy(unit)
    decisions = [policy.decide(loss(task=task, reached=500), 75.0 * n) for n in range(12)]
    assert [d.action for d in decisions[:11]].count("fail") == 1
    assert decisions[10].action == "fail"
    what = "evaluation" if task is EVALUATOR else "step"
    assert decisions[10].note == f"10 restarts in a row brought no new {what}"


@pytest.mark.parametrize("unit", ["task", "gang"])
@pytest.mark.parametrize("task", [WORKER, EVALUATOR])
def test_with_progress_there_is_no_bound_but_the_pauses(unit, task):
    policy = Policy(unit)
    decisions = [policy.decide(loss(task=task, reached=n), 1.0 * n) for n in range(1000)]
    assert "fail" not in {d.action for d in decisions}
    assert decisions[-1].delay == 8.0
    assert policy.decide(loss(task=task, reached=1000), 5000.0).delay == 0.0


def test_a_step_that_was_made_before_is_no_progress():
    """It fell back to its checkpoint, and fails at the same step or before it again."""
    policy = Policy("task", most=3)
    reached = [575, 570, 575, 571]
    assert [policy.decide(loss(reached=n), 0.0).action for n in reached][-1] == "fail"


def test_all_that_train_are_counted_as_one_where_they_are_started_as_one():
    policy = Policy("gang", most=2)
    members = [topology.Task(role, 0, WORKER.cluster) for role in ("chief", "worker", "ps")]
    actions = [policy.decide(loss(task=task, reached=7), 0.0).action for task in members]
    assert actions == ["gang", "gang", "fail"]


def test_each_task_has_attempts_of_its_own():
    policy = Policy("task", most=1)
    assert policy.decide(loss(), 0.0).action == "task"
    assert policy.decide(loss(task=EVALUATOR), 0.0).action == "task"
    assert policy.decide(loss(), 0.0).action == "fail"


def test_an_error_before_any_step_is_tried_once_more_only():
    policy = Policy("task")
    assert policy.decide(loss(1, worked=False), 0.0).action == "task"
    assert policy.decide(loss(1, worked=True), 1.0).action == "task"  # it got further
    assert policy.decide(loss(1, worked=False), 2.0).action == "task"
    decision = policy.decide(loss(1, worked=False), 3.0)
    assert (decision.action, decision.code) == ("fail", 1)


def test_the_same_exception_twice_without_a_new_step_ends_the_run():
    policy = Policy("task")
    again = loss(1, "KeyError: 'x'", reached=17)
    assert policy.decide(again, 0.0).action == "task"
    decision = policy.decide(dataclasses.replace(again, reached=16), 1.0)  # it fell back
    assert (decision.action, decision.code) == ("fail", 70)
    twice = "the same error twice in a row, without progress beyond step 16: fix the cause"
    assert twice in decision.note


@pytest.mark.parametrize("cause", ["KeyError: 'x'", "own.module.Broken: no", "AssertionError"])
@pytest.mark.parametrize("unit", ["task", "gang"])
def test_the_same_exception_twice_before_any_step_ends_the_run_too(unit, cause):
    policy = Policy(unit)
    again = loss(1, cause, worked=False)
    assert policy.decide(again, 0.0).action == unit
    decision = policy.decide(again, 1.0)
    assert (decision.action, decision.code) == ("fail", 70)
    assert "the same error twice in a row, before its first step: fix" in decision.note


@pytest.mark.parametrize("unit", ["task", "gang"])
@pytest.mark.parametrize("reached", [None, 17])
def test_the_same_exception_counts_with_losses_of_other_processes_in_between(unit, reached):
    policy = Policy(unit)
    cluster = {**WORKER.cluster, "worker": ("h:2", "h:4")}
    first, second = (topology.Task("worker", index, cluster) for index in (0, 1))
    losses = [
        loss(1, "KeyError: 'x'", worked=False, task=task, reached=reached)
        for task in (second, first, second)
    ]
    decisions = [policy.decide(one, 0.0) for one in losses]
    assert [d.action for d in decisions] == [unit, unit, "fail"]
    assert decisions[-1].code == 70


def test_different_exceptions_before_any_step_end_the_run_as_any_other_failure():
    policy = Policy("task")
    assert policy.decide(loss(1, "KeyError: 'x'", worked=False), 0.0).action == "task"
    decision = policy.decide(loss(1, "KeyError: 'y'", worked=False), 1.0)
    assert (decision.action, decision.code, decision.note) == ("fail", 1, "")


@pytest.mark.parametrize("task", [EVALUATOR, topology.Task("chief", 0)])
@pytest.mark.parametrize("evaluated", [None, 100])
def test_the_same_exception_twice_without_a_new_evaluation_ends_the_run(task, evaluated):
    """A chief that evaluates makes new steps before it fails again."""
    policy = Policy("task")
    train = loss(task=task, reached=500, evaluating=False)
    failed = loss(1, "KeyError: 'x'", task=task, reached=evaluated, evaluating=True)
    assert policy.decide(train, 0.0).action == "task"
    assert policy.decide(failed, 1.0).action == "task"
    decision = policy.decide(failed, 2.0)
    assert (decision.action, decision.code) == ("fail", 70)
    assert "twice in a row, without a new evaluation in between: fix the cause" in decision.note


def test_the_same_exception_after_a_new_evaluation_is_tried_again():
    policy = Policy("task")
    failed = loss(1, "KeyError: 'x'", task=EVALUATOR, reached=100)
    assert policy.decide(failed, 0.0).action == "task"
    assert policy.decide(dataclasses.replace(failed, reached=200), 1.0).action == "task"


@pytest.mark.parametrize(
    "second",
    [
        loss(1, "KeyError: 'x'", reached=18),  # it got further
        loss(1, "KeyError: 'y'", reached=17),
        loss(75, "KeyError: 'x'", reached=17),
        loss(-9, "KeyError: 'x'", reached=17),
    ],
)
def test_another_end_than_the_last_is_tried_again(second):
    policy = Policy("gang")
    assert policy.decide(loss(1, "KeyError: 'x'", reached=17), 0.0).action == "gang"
    assert policy.decide(second, 1.0).action == "gang"


@pytest.mark.parametrize(
    "cause",
    [
        "InternalError: connection reset by peer",
        "tensorflow.python.framework.errors_impl.UnavailableError: failed to connect to all",
        "OSError: [Errno 116] Stale file handle: 'x'",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
    ],
)
def test_what_comes_of_other_processes_and_of_storage_is_tried_again(cause):
    policy = Policy("gang")
    lost = loss(1, cause, reached=17)
    assert {policy.decide(lost, float(time)).action for time in range(5)} == {"gang"}


@pytest.mark.parametrize("kind", ["UnknownError", "RuntimeError"])
def test_a_taken_port_moves_the_whole_cluster_a_few_times(kind):
    policy = Policy("task", most_port_changes=2)
    taken = loss(1, f"{kind}: Could not start gRPC server", worked=False)
    assert [policy.decide(taken, 0.0).action for _ in range(3)] == ["gang", "gang", "fail"]


def status(task, time, step=None, loss=None, state="training", *, begun=None, pid=1):
    """`begun` is the step that its session began with, and when."""
    continued = None if begun is None else dict(zip(("step", "time"), begun, strict=True))
    return {task: Status(task, pid, "h", state, time, step=step, loss=loss, continued=continued)}


FIRST = (0, 1.0)  # from the beginning, at time 1
SAVED = (100, 102.0)
KNOWN = {
    **status("chief-0", 99.0, 119, 0.5, begun=FIRST),
    **status("worker-0", 99.5, 120, 0.5, begun=(3, 1.5)),
}


def watch(role, *seen, step=120, gang=False, known=KNOWN):
    """Returns the restart after the statuses, and whether it was over after each."""
    restart = Restart(role=role, index=0, cause="killed", step=step)
    recovery = Recovery(restart, wall_time=100.0, gang=gang, known=known)
    return restart, [recovery.see(statuses) for statuses in seen]


def test_a_worker_is_back_with_its_first_step_and_loses_none():
    restart, over = watch(
        "worker",
        KNOWN,
        status("worker-0", 101.0, state="starting"),
        status("worker-0", 101.5, 130, begun=(130, 101.5)),
        status("worker-0", 102.0, 131, 0.5, begun=(130, 101.5)),
    )
    assert over == [False, False, False, True]
    assert (restart.steps_lost, restart.seconds_to_next_step) == (0, 2.0)


def test_a_chief_takes_the_global_step_back():
    restart, over = watch(
        "chief",
        status("chief-0", 102.0, 100, begun=SAVED, pid=2),
        status("chief-0", 103.0, 103, 0.5, begun=SAVED, pid=2),
    )
    assert over == [False, True]
    assert (restart.steps_lost, restart.seconds_to_next_step) == (20, 3.0)


def test_a_parameter_server_is_watched_through_the_chief():
    restart, over = watch(
        "ps",
        status("ps-0", 101.0, state="serving"),
        status("chief-0", 102.1, 101, 0.5, begun=SAVED),
        status("chief-0", 102.5, 102, 0.5, begun=SAVED),
    )
    assert over == [False, False, True]
    assert (restart.steps_lost, restart.seconds_to_next_step) == (20, 2.5)


def test_a_gang_goes_back_to_its_checkpoint_together():
    seen = [
        status("chief-0", time, step, loss, begun=SAVED, pid=2)
        for time, step, loss in ((102.0, 100, None), (103.0, 101, 0.5))
    ]
    restart, over = watch("worker", *seen, gang=True)
    assert over == [False, True]
    assert (restart.steps_lost, restart.seconds_to_next_step) == (20, 3.0)


def test_nothing_is_lost_if_nothing_was_restored():
    """A server that was stopped for a moment: what is reported after it may be of before."""
    chief, worker = status("chief-0", 100.5, 90, 0.5, begun=FIRST), KNOWN["worker-0"]
    restart, over = watch(
        "ps",
        {**chief, "worker-0": worker},
        {**status("chief-0", 104.0, 121, 0.5, begun=FIRST), "worker-0": worker},
        {
            **status("chief-0", 104.0, 121, 0.5, begun=FIRST),
            **status("worker-0", 104.0, 110, 0.5, begun=(3, 1.5)),
        },
        {
            **status("chief-0", 105.0, 125, 0.5, begun=FIRST),
            **status("worker-0", 105.0, 124, 0.5, begun=(3, 1.5)),
        },
    )
    assert over == [False, False, False, True]
    assert restart.steps_lost == 0


def test_steps_that_were_reported_after_the_loss_are_lost_too():
    """What was seen last before a loss is up to a second old."""
    restart, over = watch(
        "chief",
        status("chief-0", 99.9, 131, 0.5, begun=FIRST),
        status("chief-0", 102.0, 104, 0.5, begun=SAVED, pid=2),
    )
    assert over == [False, True]
    assert restart.steps_lost == 31


def test_a_status_from_before_is_no_news_however_the_clock_was_set():
    """Back, so that it seems to come from the future."""
    old = status("chief-0", 3700.0, 119, 0.5, begun=(0, 3000.0))
    beat = {"chief-0": dataclasses.replace(old["chief-0"], seen=101.0)}
    seen = (beat, status("chief-0", 101.0, 125, 0.5, begun=(0, 3000.0)))
    restart, over = watch("chief", *seen, known=old)
    assert over == [False, True]
    assert (restart.steps_lost, restart.seconds_to_next_step) == (0, 1.0)


def test_of_a_script_a_lower_step_tells_that_it_was_restored():
    known = status("chief-0", 99.0, 120, 0.5)
    seen = (
        status("chief-0", 101.0, state="starting", pid=2),
        status("chief-0", 102.0, 100, 0.5, pid=2),
    )
    restart, over = watch("chief", *seen, known=known)
    assert over == [False, True]
    assert restart.steps_lost == 20


@pytest.mark.parametrize(("role", "gang"), [("ps", False), ("worker", True)])
def test_the_slowest_counts_where_all_have_to_come_back(role, gang):
    def said(chief, worker):
        begun = SAVED if chief[0] >= 102.0 else FIRST
        return {
            **status("chief-0", *chief, begun=begun),
            **status("worker-0", *worker, begun=(3, 1.5)),
        }

    before = (99.5, 120, 0.5)
    restart, over = watch(
        role,
        said((102.0, 100), before),
        said((103.0, 101, 0.5), before),
        said((104.0, 140, 0.5), (104.0, 130)),
        said((131.0, 170, 0.5), (131.5, 131, 0.5)),
        gang=gang,
    )
    assert over == [False, False, False, True]
    assert (restart.steps_lost, restart.seconds_to_next_step) == (20, 31.5)


def test_an_ended_process_is_not_waited_for():
    ended = status("worker-0", 99.0, 120, 0.5, "done")
    seen = ({**ended, **status("chief-0", t, step, 0.5)} for t, step in ((101.0, 90), (102.0, 91)))
    restart, over = watch("ps", *seen)
    assert over == [False, True]
    assert restart.seconds_to_next_step == 2.0


def test_an_evaluator_is_back_when_it_looks_for_checkpoints():
    said = ((100.2, "preparing"), (100.4, "starting"), (103.0, "waiting"))
    seen = (status("evaluator-0", at, state=state) for at, state in said)
    restart, over = watch("evaluator", {}, *seen)
    assert over == [False, False, False, True]
    assert (restart.steps_lost, restart.seconds_to_next_step) == (0, 3.0)


def test_what_ended_before_its_next_report_is_back_too():
    _, over = watch("worker", status("worker-0", 101.0, 150, state="done"))
    assert over == [True]


def test_final_codes_are_those_of_errors_that_come_again():
    assert errors.FINAL_CODES == (64, 65, 70)


def test_training_that_stalls_is_started_again_as_a_whole_in_every_mode():
    stalled = restart_policy.Loss(
        topology.Task("ps", 0), -9, "no step for 120 s", True, stalled=True
    )
    assert restart_policy.Policy("task").decide(stalled, 0.0).action == "gang"


def test_steps_that_others_made_meanwhile_are_lost_too():
    chief = status("chief-0", 102.0, 51, 0.5, begun=(51, 101.8), pid=2)
    restart, over = watch(
        "chief",
        status("worker-0", 101.0, 150, 0.5),
        {**status("worker-0", 101.5, 160, 0.5), **chief},
    )
    assert over == [False, True]
    assert restart.steps_lost == 160 - 51


def test_steps_that_others_have_made_again_are_not():
    chief = status("chief-0", 102.0, 51, 0.5, begun=(51, 101.8), pid=2)
    restart, _ = watch("chief", {**status("worker-0", 101.9, 160, 0.5), **chief})
    assert restart.steps_lost == 120 - 51


def test_any_code_of_an_error_counts_but_not_one_from_outside():
    policy = Policy("task")
    decisions = [policy.decide(loss(3, worked=False), 0.0) for _ in range(2)]
    assert [(d.action, d.code) for d in decisions] == [("task", 0), ("fail", 1)]
    outside = Policy("task")
    for code in (-9, 75, 0):
        assert outside.decide(loss(code, worked=False), 0.0).action == "task"
