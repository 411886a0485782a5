"""Numbers at random places."""

import numpy as np
import pytest

from weft.codecs import Form, RandomK, Turn
from weft.codecs.randomk import drawn_places
from weft.core.errors import CodecError, ConfigError


def test_payloads_of_all_workers_add_up() -> None:
    workers, codec, form = np.random.default_rng(0).standard_normal((3, 1000)), RandomK(0.1), Form(1000, 8)
    first, *others = (codec.encode(one, None, form, Turn(4, draw, 9)).payload for draw, one in enumerate(workers))
    for other in others:
        codec.merge(first, 1.0, other, 1.0, form)
    codec.merge(first, 0.5, others[0], 0.0, form)
    said = np.zeros(1000)
    codec.decode(first, said, form)
    places = np.flatnonzero(said)
    assert len(places) == 100
    np.testing.assert_allclose(said[places], 0.5 * workers.sum(0)[places], rtol=1e-12)


def test_other_clocks_have_other_places_and_do_not_add_up() -> None:
    values, codec, form = np.ones(1000), RandomK(0.1), Form(1000, 8)
    one, other = (codec.encode(values, None, form, Turn(clock)).payload for clock in (1, 2))
    with pytest.raises(CodecError, match="only those of one clock and one seed add up"):
        codec.merge(one, 1.0, other, 1.0, form)


def test_places_rise_and_all_are_about_equally_likely() -> None:
    places = np.array([drawn_places(seed, 10, 103) for seed in range(5000)])
    assert (np.diff(places) > 0).all()
    counts = np.bincount(places.reshape(-1), minlength=103)
    assert len(counts) == 103
    assert abs(counts - 50_000 / 103).max() < 100


def test_a_fraction_of_more_than_everything_is_refused() -> None:
    with pytest.raises(ConfigError, match="fraction of 'randomk' is 2, but it is above 0 and at most 1"):
        RandomK(2)
