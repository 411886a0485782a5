"""Numbers of bytes and seconds as people say them, on screens and pages alike."""


def human_bytes(value: float) -> str:
    """'3.1 MB'."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("unreachable")


def human_seconds(value: float) -> str:
    """'12.3 s', '4 min 10 s'."""
    if value < 1e-3:
        return f"{value * 1e6:.0f} us"
    if value < 1:
        return f"{value * 1e3:.1f} ms"
    if value < 120:
        return f"{value:.1f} s"
    minutes, seconds = divmod(round(value), 60)
    return f"{minutes} min {seconds} s"


def human_rate(bytes_per_s: float) -> str:
    """'98.5 Mbit/s', as people say it of networks."""
    value = 8 * bytes_per_s
    for unit in ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"):
        if value < 1000 or unit == "Gbit/s":
            return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"
        value /= 1000
    raise AssertionError("unreachable")
