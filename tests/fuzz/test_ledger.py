"""A model whose numbers say which gradients were applied."""

import numpy as np

from weft.core.names import GRADIENT
from weft.fuzz.ledger import GROUND, Book, LedgerProgram, LedgerReplica
from weft.sim.program import BackwardDone, PortionWanted, ReportDone, StepDone

BOOK = Book((0, 1, 2), num_steps=4, num_trained=2, has_state=True)
SAMPLES = (2.0, 3.0, 1.0, 5.0)


def program(worker: int, replica: LedgerReplica, num_steps: int = 4, *bad: int) -> LedgerProgram:
    return LedgerProgram(worker, replica, BOOK, SAMPLES, 2, num_steps, frozenset(bad), seed=0)


def test_every_step_of_every_worker_has_a_place_of_its_own() -> None:
    steps = [(worker, step) for worker in range(3) for step in range(4)]
    assert {BOOK.place(*step) for step in steps} == set(range(1, BOOK.num_elements))
    assert [BOOK.contribution(BOOK.place(*step)) for step in steps] == steps


def test_a_place_has_a_name() -> None:
    book = Book((0, 1, 2), num_steps=4)
    assert [book.name(place) for place in (GROUND, book.place(2, 1))] == ["the ground", "step 1 of worker 2"]


def test_a_gradient_is_the_unit_vector_of_its_step_in_every_trained_bucket() -> None:
    replica = LedgerReplica(BOOK)
    script = program(1, replica)
    assert script.resume() == BackwardDone(2.0)
    for bucket in range(2):
        assert replica.array(GRADIENT, bucket).sum() == replica.array(GRADIENT, bucket)[BOOK.place(1, 0)] == 1.0
    assert isinstance(script.resume(), StepDone)
    assert script.resume() == BackwardDone(3.0)
    assert replica.array(GRADIENT, 0)[BOOK.place(1, 1)] == 1.0
    assert isinstance(script.resume(), StepDone)
    assert isinstance(script.resume(), ReportDone)


def test_values_to_tune_are_a_last_bucket_that_is_all_ones() -> None:
    book = Book((0, 1), 3, num_trained=1, has_state=True, has_tuned=True)
    assert [(bucket.trainable, bucket.tuned) for bucket in book.buckets] == [
        (True, False),
        (False, False),
        (False, True),
    ]
    assert LedgerReplica(book).params[2].tolist() == [1.0, 1.0]


def test_applying_gradients_writes_their_weights_down() -> None:
    replica = LedgerReplica(BOOK)
    program(1, replica).resume()
    replica.apply({0: replica.array(GRADIENT, 0)}, 0.25, None)
    assert replica.params[0][BOOK.place(1, 0)] == 0.25
    assert replica.params[0][GROUND] == 1.0
    assert not LedgerReplica(BOOK, is_empty=True).params[0].any()


def test_a_step_that_is_not_finite_is_not_a_number_and_a_script_may_end_early() -> None:
    replica = LedgerReplica(BOOK)
    script = program(0, replica, 1, 0)
    script.resume()
    assert np.isnan(replica.array(GRADIENT, 0)[BOOK.place(0, 0)])
    assert isinstance(script.resume(), StepDone)
    assert script.resume() is None


def test_a_script_whose_portions_are_handed_out_ends_after_its_epochs_or_its_steps() -> None:
    def kinds(num_steps: int, *portions: int | None) -> list[type]:
        script = LedgerProgram(1, LedgerReplica(BOOK), BOOK, SAMPLES, 2, num_steps, frozenset(), seed=0, num_portions=2)
        asked, handed = [], list(portions)
        while (request := script.resume()) is not None:
            asked.append(type(request))
            if isinstance(request, PortionWanted):
                request.portion = handed.pop(0)
        return asked

    step, over = [PortionWanted, BackwardDone, StepDone], [PortionWanted, ReportDone]
    assert kinds(4, 1, None, None) == [*step, *over, *over], "four places hold two epochs of two portions"
    assert kinds(1, 1) == step


def test_a_wide_book_has_several_places_for_a_contribution_and_a_matrix() -> None:
    book = Book((0, 1, 2), num_steps=4, width=2)
    assert book.num_elements == 25
    assert book.places(1, 2) == slice(13, 15)
    assert [book.contribution(place) for place in (13, 14, 15)] == [(1, 2), (1, 2), (1, 3)]
    assert book.buckets[0].tensors == ((1, (4, 4)),)
    replica = LedgerReplica(book)
    LedgerProgram(1, replica, book, SAMPLES, 2, 4, frozenset(), seed=0).resume()
    assert np.flatnonzero(replica.array(GRADIENT, 0)).tolist() == [9, 10]
    assert replica.give_up_momentum() == 0.0


def test_a_newcomer_whose_portions_are_handed_out_begins_with_the_share_that_is_under_way() -> None:
    script = LedgerProgram(1, LedgerReplica(BOOK), BOOK, SAMPLES, 2, 4, frozenset(), seed=0, num_portions=2)
    script.begin_at(1)
    wanted = script.resume()
    assert wanted == PortionWanted(1, 2)
    wanted.portion = 0
    assert script.resume() == BackwardDone(SAMPLES[1])
