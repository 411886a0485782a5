"""How long encoding and decoding take: bytes of the array per second, for each codec."""

from collections.abc import Mapping
from typing import NamedTuple


class Throughput(NamedTuple):
    """Bytes of the array that are encoded, and decoded, in a second."""

    encode_bytes_per_s: float
    decode_bytes_per_s: float


class CodingSpeed:
    """The throughput of each codec by its name; those that are not named are as fast as the slowest that is."""

    def __init__(self, throughputs: Mapping[str, Throughput]) -> None:
        self._throughputs = throughputs
        everybody = list(throughputs.values())
        self._slowest = (
            Throughput(min(t.encode_bytes_per_s for t in everybody), min(t.decode_bytes_per_s for t in everybody))
            if everybody
            else None
        )

    def encode_s(self, codec: object, num_bytes: int) -> float:
        """Seconds to encode an array of so many bytes; none if nobody has measured."""
        throughput = self._of(codec)
        return num_bytes / throughput.encode_bytes_per_s if throughput else 0.0

    def decode_s(self, codec: object, num_bytes: int) -> float:
        """Seconds to decode it again."""
        throughput = self._of(codec)
        return num_bytes / throughput.decode_bytes_per_s if throughput else 0.0

    def _of(self, codec: object) -> Throughput | None:
        return self._throughputs.get(type(codec).__name__.lower(), self._slowest)
