"""Every option of `weft compare` says what it is for."""

import typing

import pytest

from weft.cli.options import compare_options

OPTIONS = {name: kind for name, kind in vars(compare_options).items() if typing.get_origin(kind) is typing.Annotated}


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_an_option_says_what_it_is_for(name: str) -> None:
    (option,) = OPTIONS[name].__metadata__
    assert option.help.endswith(".")
    assert len(OPTIONS) == 9
