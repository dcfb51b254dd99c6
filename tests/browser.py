"""Pages in headless Chromium, driven through the pipe of its DevTools protocol.

The protocol (https://chromedevtools.github.io/devtools-protocol): JSON messages, each with a zero byte at its
end, that the browser reads from its file descriptor 3 and writes to 4. No driver and no package is needed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

NAMES = "chromium", "chromium-browser", "google-chrome", "chrome"
FLAGS = (
    "--headless",
    "--no-sandbox",  # root, as in CI, cannot use the sandbox; the pages are the project's own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--use-fake-device-for-media-stream",  # a camera with a test picture
)
PATIENCE = 60.0  # seconds for an answer of the browser, which starts slowly on a busy machine


class BrowserError(RuntimeError):
    """The browser did not execute a command."""


def find_chromium() -> str | None:
    """Return the program, if one is installed and the system supports the pipe."""
    return next(filter(None, map(shutil.which, NAMES)), None) if os.name == "posix" else None


class Browser:
    """A running Chromium with one page."""

    def __init__(self, profile: Path) -> None:
        program = find_chromium()
        if program is None:
            raise BrowserError("no Chromium is installed")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        self._log = profile / "log"
        command = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out} >"$0" 2>&1'
        options = (*FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank")
        self._process = subprocess.Popen(
            ["bash", "-c", command, self._log, program, *options],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._count = 0
        self._unread = b""
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(BrowserError):
            self._session = None
            self.call("Browser.close")
        os.close(self._in)
        os.close(self._out)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol; return its result. Events until then are appended to `events`."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        with contextlib.suppress(BrokenPipeError):  # reading then reports the end of the browser
            os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read(method)
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _read(self, what: str) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._in, 1 << 20) if ready else b""
            if not data:
                raise BrowserError(
                    f"{what}: the browser {'is gone' if ready else 'does not answer'}: {self._said()}"
                )
            self._unread += data
        text, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""

    def show(self, width: int, height: int, *, dark: bool = False, scale: float = 1) -> None:
        """Set the size of the window in CSS pixels, image pixels for each of them, and the preferred colours.

        A narrow window is that of a phone with a touch screen.
        """
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        self.call("Emulation.setTouchEmulationEnabled", enabled=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str) -> None:
        """Open a page and wait until it is loaded; `events` then contains only later ones."""
        self.events.clear()
        went = self.call("Page.navigate", url=address)
        if "errorText" in went:
            raise BrowserError(f"{address}: {went['errorText']}")
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read(address))

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page; await promises."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if "exceptionDetails" in found:
            raise BrowserError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def wait_for(self, expression: str, seconds: float = PATIENCE) -> Any:
        """Wait until an expression is true; return its value."""
        deadline = time.monotonic() + seconds
        while not (value := self.evaluate(expression)):
            if time.monotonic() > deadline:
                raise BrowserError(f"{expression} was not true within {seconds:g} s")
            time.sleep(0.05)
        return value

    def upload(self, selector: str, files: Sequence[Path]) -> None:
        """Choose files in an <input type=file>."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path) for path in files])

    def screenshot(self, *, whole: bool = False, of: str | None = None) -> bytes:
        """Return a PNG of the window, of the whole page, or of all elements of the selector `of`."""
        clip = _clip(self._box(of or "html")) if whole or of else {}
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=bool(clip), **clip)
        return base64.b64decode(taken["data"])

    def _box(self, selector: str) -> list[float]:
        """Return x, y, width and height of all elements of a selector together."""
        found: list[float] = self.evaluate(
            f"""(() => {{
              const boxes = [...document.querySelectorAll({json.dumps(selector)})].map(
                (node) => node.getBoundingClientRect());
              const [x, y] = [Math.min(...boxes.map((b) => b.left)), Math.min(...boxes.map((b) => b.top))];
              const width = Math.max(...boxes.map((b) => b.right)) - x;
              return [x + scrollX, y + scrollY, width, Math.max(...boxes.map((b) => b.bottom)) - y];
            }})()"""
        )
        return found

    @property
    def requests(self) -> list[str]:
        """Return the addresses that the page has requested since it was opened."""
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    @property
    def complaints(self) -> list[str]:
        """Return errors of scripts and messages of the browser, such as of a content security policy."""
        kinds = "Runtime.exceptionThrown", "Log.entryAdded"
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in kinds]


def _clip(box: Sequence[float]) -> dict[str, Any]:
    return {"clip": {**dict(zip(("x", "y", "width", "height"), box, strict=True)), "scale": 1}}


@contextlib.contextmanager
def open_browser() -> Iterator[Browser]:
    """Run a browser with its own profile during a block."""
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        browser = Browser(Path(profile))
        try:
            yield browser
        finally:
            browser.close()


def require_chromium() -> None:
    """Skip the test without a Chromium; fail it if GPUNN_REQUIRE_CHROMIUM=1 requires one."""
    if find_chromium() is not None:
        return
    reason = "no Chromium is installed"
    if os.environ.get("GPUNN_REQUIRE_CHROMIUM") == "1":
        pytest.fail(f"GPUNN_REQUIRE_CHROMIUM=1, but {reason}")
    pytest.skip(reason)
