"""A real browser without a window, spoken to through a pipe: what it logs, what it fetches, how a page is laid out."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio")
# bash, because the protocol wants descriptors 3 and 4 whatever the test's own numbers are
START = 'exec "$0" "${@:3}" 3<&"$1" 4>&"$2"'


class Browser:
    """One tab of a browser. Answers come in order, each ends with a zero byte."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._buffer = b""
        self._last = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        """Errors and warnings that the page caused."""
        self.fetched: list[str] = []
        """All addresses that the page asked for."""
        tab = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> Any:
        """Send a command and wait for its answer; what happens meanwhile is noted."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self._last:
                assert "error" not in told, told
                return told["result"]

    def open(self, page: Path, width: int, dark: bool = False, media: str = "screen") -> None:
        """Load a page into a window of this width and wait until it is there."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=scheme)
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.ask("Page.navigate", url=page.as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def run(self, expression: str) -> Any:
        """What JavaScript makes of an expression, as plain data."""
        told = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._answers, 1 << 16)
            assert piece, "the browser has gone"
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        told: dict[str, Any] = json.loads(text)
        self._note(told.get("method", ""), told.get("params", {}))
        return told

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.fetched.append(params["request"]["url"])


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start Chromium with a profile of its own; it ends with the block."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program is not None, (
        "reports are tested in Chromium: install it (apt-get install chromium), or `make browser`"
    )
    theirs, commands = os.pipe()
    answers, ours = os.pipe()
    flags = [*FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe"]
    process = subprocess.Popen(
        ["bash", "-c", START, program, str(theirs), str(ours), *flags],
        pass_fds=(theirs, ours),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    os.close(ours)
    try:
        yield Browser(commands, answers)
    finally:
        os.close(commands)
        os.close(answers)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
