"""What is told of a lost worker."""

from msgspec import to_builtins

from weft.engines.real.losses import Loss

LOSS = Loss(worker=2, cause="killed by signal 9", step=31, detected_s=1.5)


def test_a_loss_says_who_when_and_why() -> None:
    assert str(LOSS) == "worker 2 is lost at step 31: killed by signal 9"


def test_a_loss_is_told_in_json_without_a_time_at_which_nobody_was_told() -> None:
    assert to_builtins(LOSS) == {
        "worker": 2,
        "cause": "killed by signal 9",
        "step": 31,
        "detected_s": 1.5,
        "told_s": None,
    }
