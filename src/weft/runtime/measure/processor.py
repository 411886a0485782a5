"""The kind of this host's processor: processors of different kinds may round the same update differently."""

import platform
from pathlib import Path
from zlib import crc32

CPUINFO = Path("/proc/cpuinfo")


def processor_name() -> str:
    """The processor's model name."""
    return _field("model name") or platform.processor() or platform.machine()


def processor_kind() -> str:
    """The model name with a digest of its instruction-set flags: processors of the same kind round alike."""
    abilities = _field("flags") or _field("Features") or ""
    return f"{processor_name()} [{crc32(abilities.encode()):08x}]"


def _field(name: str) -> str | None:
    """A field of the first core in /proc/cpuinfo."""
    lines = CPUINFO.read_text().splitlines() if CPUINFO.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.split(":")[0].strip() == name), None)
