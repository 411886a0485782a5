"""The shares with which a run goes on from a checkpoint: each where it was, or what is left dealt among others."""

from support.scripts.share_scripts import Script, scripts

from weft.data.resumed_shares import StoredShares, resumed_shares, to_store
from weft.data.share_records import HandedShares


def begun(num_workers: int, num_samples: int, num_committed: tuple[int, ...]) -> dict[int, Script]:
    """Scripts in the first share of the third epoch of their second loop, with one sample for each in a round, of which
    each has committed so many rounds."""
    team = scripts(num_workers)
    for script, number in zip(team.values(), num_committed, strict=True):
        script.dealt.begin_epoch(1, 2)
        script.begin(num_samples, 1)
        for _ in range(number):
            script.take()
            script.commit()
    return team


def stored(team: dict[int, Script]) -> list[StoredShares]:
    return [StoredShares(script.dealt.hand_over(), script.dealt.to_keep) for script in team.values()]


def going_on(team: dict[int, Script], num_workers: int) -> dict[int, Script]:
    """The scripts of a run that goes on from a checkpoint of these."""
    others = scripts(num_workers)
    for rank, script in others.items():
        script.dealt.take_over(resumed_shares(stored(team), rank, num_workers))
    return others


def places(script: Script) -> list[int]:
    """What a script has left of its share and that counts."""
    return [place for part in script.left for place in part.places[: part.num_counted]]


def handed(team: dict[int, Script], num_workers: int) -> HandedShares:
    return resumed_shares(stored(team), 0, num_workers)


def test_as_many_workers_go_on_with_the_same_rounds_where_each_was() -> None:
    team = begun(2, 6, (1, 2))
    others = going_on(team, 2)
    for rank, script in others.items():
        script.begin(6, 1)
        assert places(script) == places(team[rank])
        assert script.dealt.reached() == team[rank].dealt.reached()


def test_they_go_on_in_the_loop_and_epoch_in_which_they_were() -> None:
    for num_workers in (2, 3):
        shares = handed(begun(2, 6, (1, 1)), num_workers)
        assert (shares.loop, shares.epoch, shares.first) == (1, 2, 0)


def test_workers_that_are_left_after_a_loss_go_on_in_their_order() -> None:
    team = begun(3, 9, (1, 1, 1))
    lost = team.pop(1)
    members = {rank: script.dealt.reached() for rank, script in team.items()}
    for script in team.values():
        script.dealt.lose({1: lost.published}, members, 1)
    others = going_on(team, 2)
    for place, rank in enumerate((0, 2)):
        others[place].begin(9, 1)
        assert places(others[place]) == places(team[rank])
    assert handed(team, 2).members == [0, 1]


def test_those_who_are_gone_are_told_from_those_who_are_there_checkpoint_after_checkpoint() -> None:
    team = begun(3, 9, (1, 0, 1))
    left = team[1]
    lost = {rank: team[rank].published for rank in (0, 2)}
    left.dealt.lose(lost, {1: left.dealt.reached()}, 1)
    for _ in range(3):
        (left,) = going_on({0: left}, 1).values()
        left.dealt.begin_epoch(1, 2)
        left.begin(9, 1)
        assert sorted(places(left)) == [1, 3, 4, 5, 6, 7, 8]


def test_with_others_what_nobody_has_committed_is_dealt_among_them() -> None:
    others = going_on(begun(2, 6, (1, 2)), 3)
    for script in others.values():
        script.begin(6, 1)
    assert [places(script) for script in others.values()] == [[2, 4, 5], [], []]


def test_with_fewer_samples_than_workers_some_stand_in_with_one_that_does_not_count() -> None:
    others = going_on(begun(2, 6, (2, 3)), 3)
    for script in others.values():
        script.begin(6, 1)
    assert [places(script) for script in others.values()] == [[4], [], []]


def test_others_begin_with_the_epoch_of_whoever_was_last() -> None:
    team = begun(2, 4, (1, 2))
    ahead = team[1]
    ahead.dealt.end(ahead.rounds)
    ahead.dealt.begin_epoch(1, 3)
    ahead.begin(4, 1)
    ahead.take()
    ahead.commit()
    (one,) = going_on(team, 1).values()
    assert handed(team, 1).epoch == 2
    one.begin(4, 1)
    assert places(one) == [2]
    one.dealt.end(one.rounds)
    one.begin(4, 1)
    assert places(one) == [0, 2, 3], "who was ahead has committed sample 1 of the next epoch"
    one.dealt.end(one.rounds)
    one.begin(4, 1)
    assert places(one) == [0, 1, 2, 3]


def test_later_shares_are_divided_among_all_though_some_had_ended_and_left() -> None:
    team = begun(2, 4, (1, 2))
    left = team[0]
    left.dealt.cut()
    left.dealt.end(left.rounds)
    for script in team.values():
        script.dealt.lose({}, {1: team[1].dealt.reached()}, 1)
    others = going_on(team, 2)
    for script in others.values():
        script.begin(4, 1)
    assert [places(script) for script in others.values()] == [[2], []], "what was left to worker 0"
    for script in others.values():
        script.dealt.end(script.rounds)
        script.begin(4, 1)
    assert [places(script) for script in others.values()] == [[0, 2], [1, 3]]


def test_shares_that_a_script_began_after_it_was_told_to_end_are_begun_anew() -> None:
    for num_workers in (2, 3):
        team = begun(2, 6, (1, 1))
        for script in team.values():
            script.dealt.cut()
            script.dealt.end(script.rounds)
            script.begin(6, 1)
            script.dealt.cut()
            script.dealt.end(script.rounds)
        others = going_on(team, num_workers)
        for num_left in (4, 6):
            for script in others.values():
                script.begin(6, 1)
            assert sum(len(places(script)) for script in others.values()) == num_left
            for script in others.values():
                script.dealt.end(script.rounds)


def test_a_worker_that_is_lost_before_it_is_again_in_the_share_where_it_was_has_committed_what_it_had() -> None:
    team = begun(2, 4, (2, 2))
    for script in team.values():
        script.dealt.end(script.rounds)
        script.begin(4, 1)
        script.take()
        script.commit()
    first, lost = going_on(team, 2).values()
    for script in (first, lost):
        script.begin(4, 1)
    first.dealt.lose({1: lost.published}, {0: first.dealt.reached()}, 1)
    first.dealt.end(first.rounds)
    first.begin(4, 1)
    assert places(first) == [2, 3]


def test_rounds_of_epochs_that_a_worker_has_ended_are_not_stored() -> None:
    (script,) = begun(1, 4, (4,)).values()
    script.dealt.end(script.rounds)
    script.dealt.begin_epoch(1, 3)
    script.begin(4, 1)
    assert sorted(script.dealt.hand_over().rounds) == [0, 1]
    assert sorted(to_store(script.dealt.hand_over()).rounds) == [1]
