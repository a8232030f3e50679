"""A headless Chromium that a test drives through its DevTools, over a pipe: no port, no library."""

from __future__ import annotations

import base64
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

PATIENCE_S = 60.0

MISSING = (
    "the page is tested in Chromium, and there is no `chromium` on the PATH: "
    "`apt-get install --no-install-recommends chromium`; or leave these tests out with "
    "MUSTER_PAGE=skip"
)

_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    # The tests run as root in containers; the page comes from the test itself.
    "--no-sandbox",
    # A name that is not the test's own server never resolves.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)

R = TypeVar("R")


def path() -> str | None:
    """Where Chromium is."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


class DevToolsError(AssertionError):
    """Chromium refused a command, or the page threw."""


class Chromium:
    """The browser. Commands are sent and answered in turn; events are kept."""

    def __init__(self, binary: str, folder: str) -> None:
        to_child, self._write = os.pipe()
        self._read, from_child = os.pipe()
        # Chromium reads commands from file 3 and writes answers to file 4.
        script = f'exec 3<&{to_child} 4>&{from_child}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", binary, *_FLAGS, f"--user-data-dir={folder}"],
            pass_fds=(to_child, from_child),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_child)
        os.close(from_child)
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self.events: list[dict[str, Any]] = []
        self._id = 0
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command and give its result."""
        self._id += 1
        message: dict[str, Any] = {"id": self._id, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._answers.get(timeout=PATIENCE_S)
            if answer.get("id") == self._id:
                break
        if "error" in answer:
            raise DevToolsError(f"{method}: {answer['error'].get('message')}")
        found: dict[str, Any] = answer["result"]
        return found

    def close(self) -> None:
        """End it."""
        try:
            self.call("Browser.close")
            self._process.wait(10)
        except (OSError, queue.Empty, DevToolsError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._reader.join(10)
        os.close(self._write)
        os.close(self._read)

    def _listen(self) -> None:
        rest = b""
        while chunk := os.read(self._read, 1 << 16):
            *messages, rest = (rest + chunk).split(b"\0")
            for raw in messages:
                message = json.loads(raw)
                if "id" in message:
                    self._answers.put(message)
                else:
                    self.events.append(message)


class Tab:
    """One page of the browser."""

    def __init__(self, browser: Chromium, width: int, height: int) -> None:
        self._browser = browser
        made = browser.call("Target.createTarget", url="about:blank")
        self._target = made["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Performance"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A command for this page."""
        return self._browser.call(method, self._session, **params)

    def open(self, url: str) -> None:
        """Go somewhere."""
        found = self.call("Page.navigate", url=url)
        assert "errorText" not in found, found
        self.wait(f"location.href.startsWith({json.dumps(url)}) && document.readyState")

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise DevToolsError(json.dumps(found["exceptionDetails"])[:2000])
        return found["result"].get("value")

    def wait(self, script: str, enough: Callable[[Any], bool] = bool) -> Any:
        """Wait until an expression has a value that is enough, and give it."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                found = self.run(script)
                if enough(found):
                    return found
            except DevToolsError as error:
                # While one document takes the place of another there may be nothing to ask.
                found = error
            if time.monotonic() > deadline:
                raise AssertionError(f"{script} is still {found!r}; trouble: {self.trouble()}")
            time.sleep(0.05)

    def key(self, name: str) -> None:
        """Press a key."""
        codes = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39}
        code = codes.get(name, 40 if name == "ArrowDown" else 9)
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code
            )

    def click(self, selector: str) -> None:
        """Click the middle of an element."""
        x, y = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({ block: 'center' }); const r = e.getBoundingClientRect(); "
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def dark(self, wanted: bool) -> None:
        """What the user's system prefers."""
        value = "dark" if wanted else "light"
        feature = {"name": "prefers-color-scheme", "value": value}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def screenshot(self, file: Path) -> None:
        """What is seen, as PNG."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(data))

    def metrics(self) -> dict[str, float]:
        """Chromium's own figures, such as TaskDuration in seconds of the main thread."""
        return {
            item["name"]: item["value"] for item in self.call("Performance.getMetrics")["metrics"]
        }

    def requests(self) -> list[str]:
        """URLs that the page has asked for."""
        return [
            event["params"]["request"]["url"] for event in self._mine("Network.requestWillBeSent")
        ]

    def trouble(self) -> list[str]:
        """Exceptions, and errors on the console: what a policy blocked, among others."""
        thrown = [
            event["params"]["exceptionDetails"].get("exception", {}).get("description", "exception")
            for event in self._mine("Runtime.exceptionThrown")
        ]
        entries = [event["params"]["entry"] for event in self._mine("Log.entryAdded")]
        said = [entry["text"] for entry in entries if entry["level"] == "error"]
        return thrown + said

    def accessible(self) -> list[tuple[str, str]]:
        """Role and name of everything that a screen reader is told of."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (str(node["role"]["value"]), str(node.get("name", {}).get("value", "")))
            for node in nodes
            if not node.get("ignored") and "role" in node
        ]

    def close(self) -> None:
        """Close the page."""
        self._browser.call("Target.closeTarget", targetId=self._target)

    def _mine(self, method: str) -> Iterator[dict[str, Any]]:
        for event in list(self._browser.events):
            if event.get("method") == method and event.get("sessionId") == self._session:
                yield event


@contextmanager
def browser(binary: str) -> Iterator[Chromium]:
    """A browser with a profile of its own, gone at the end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        made = Chromium(binary, folder)
        try:
            yield made
        finally:
            made.close()
