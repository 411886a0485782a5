"""Loss against virtual time, as a picture."""

from pathlib import Path

from weft.config.extras import check_extra
from weft.core.errors import ConfigError
from weft.engines.simulated.outcome import Outcome

FORMATS = (".png", ".svg", ".pdf")


def check_plot(path: Path, dry: bool) -> None:
    """Refuse what could not be drawn, before anything runs."""
    if dry:
        raise ConfigError("--plot draws the loss, but --dry computes none.\n  Leave out one of them.")
    if path.suffix not in FORMATS:
        raise ConfigError(f"--plot '{path}' is not a picture.\n  End its name in {', '.join(FORMATS)}.")
    check_extra("plot", "--plot")


def plot_curves(outcomes: list[Outcome], path: Path) -> None:
    """Training loss over virtual time, one line for each strategy; accuracy beside it where reported."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = [name for name in outcomes[0].facts.final if name != "loss"][:1]
    figure, axes = pyplot.subplots(1, 1 + len(names), figsize=(6.5 * (1 + len(names)), 4.5), squeeze=False)
    for i, outcome in enumerate(outcomes):
        style = {"label": outcome.strategy, "color": f"C{i % 10}", "linestyle": "-" if i < 10 else "--"}
        curve = outcome.facts.curve()
        axes[0][0].plot([p["virtual_s"] for p in curve], [p["loss"] for p in curve], linewidth=1.4, **style)
        for axis, name in zip(axes[0][1:], names):
            told = [r for r in outcome.facts.reports if name in r]
            axis.plot([r["virtual_s"] for r in told], [r[name] for r in told], marker="o", markersize=3, **style)
    for axis, name in zip(axes[0], ("training loss", *names)):
        axis.set_xlabel("virtual time (s)")
        axis.set_ylabel(name)
        axis.grid(alpha=0.3)
    axes[0][0].set_yscale("log")
    axes[0][-1].legend(fontsize=8)
    figure.suptitle(f"{outcomes[0].workers} simulated workers: further left is faster")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
