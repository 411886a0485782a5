"""Where an array is cut."""

from weft.codecs import Form
from weft.codecs.segments import bounds


def test_an_array_is_cut_at_its_tensors_or_into_blocks() -> None:
    form = Form(100, 4, ((0, (2, 5)), (20, (30,))))
    assert bounds(form, None).tolist() == [0, 10, 20, 50, 100]
    assert bounds(form, 40).tolist() == [0, 40, 80, 100]
    assert bounds(Form(7), None).tolist() == [0, 7]
