"""How many jobs a runner is handed ahead."""

from tidemill.tasks.runner.pace import Pace


def test_jobs_of_a_queue_that_nobody_knows_come_one_by_one() -> None:
    assert Pace().depth("new") == 1


def test_quick_jobs_come_in_numbers_and_slow_ones_do_not() -> None:
    pace = Pace()
    pace.took("quick", 0.00001)
    pace.took("middling", 0.001)
    pace.took("slow", 1.0)

    assert pace.depth("quick") == 64
    assert pace.depth("middling") == 5
    assert pace.depth("slow") == 1


def test_one_slow_job_is_believed_at_once_and_a_quick_one_is_not() -> None:
    pace = Pace()
    pace.took("a", 0.0001)
    pace.took("a", 1.0)
    assert pace.depth("a") == 1

    pace.took("a", 0.0001)
    assert pace.depth("a") == 1


def test_queues_that_come_and_go_do_not_pile_up() -> None:
    pace = Pace()
    for number in range(2000):
        pace.took(f"q{number}", 0.00001)

    assert pace.depth("q0") == 1
    assert pace.depth("q1999") == 64
