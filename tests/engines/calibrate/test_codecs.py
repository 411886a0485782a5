"""The speed of codecs on this machine."""

from weft.config.registry import CODECS
from weft.cost.coding import CodingSpeed
from weft.engines.calibrate.codecs import codec_speeds


def test_every_codec_that_needs_no_adapter_is_measured_stage_by_stage() -> None:
    speeds = codec_speeds()
    codecs = [cls() for cls in CODECS.values() if not cls.captures]
    stages = {type(stage).__name__.lower() for codec in codecs for stage in codec.stages()}
    assert set(speeds) == stages | {"nonzeros"}
    assert {"left", "right", "peaks", "terngrad"} <= stages
    assert all(1e6 < speed < 1e14 for both in speeds.values() for speed in both)
    table = CodingSpeed(speeds)
    assert all(table.encode_s(codec, 1 << 20) > 0 for codec in codecs)
