"""The nameless files that the workers of a host inherit."""

from weft.runtime.descriptors import Descriptors


def test_descriptors_are_the_same_after_they_were_handed_on_as_a_plain_list() -> None:
    descriptors = Descriptors(3, 4, 5, 6, [[7, 8], [9, 10]])
    assert Descriptors.of(descriptors.flat()) == descriptors
    assert Descriptors.of([*descriptors.flat(), 11, 12], num_namespaces=2).namespaces == [11, 12]
