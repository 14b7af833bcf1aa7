# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, by its DevTools protocol over two pipes: opens a page, evaluates
expressions, types, presses keys, takes pictures."""

import base64
import json
import os
import subprocess
import time

import patience

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check"]


class Browser:
    def __init__(self, chromium, folder):
        read, self.to = os.pipe()
        self.answers, write = os.pipe()

        def pipes():
            high = [os.dup(fd) for fd in (read, write)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [chromium, *FLAGS, f"--user-data-dir={folder}", "about:blank"], preexec_fn=pipes,
            close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read)
        os.close(write)
        self.count, self.rest, self.session, self.events = 0, b"", None, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.answers)

    def message(self):
        while b"\0" not in self.rest:
            more = os.read(self.answers, 1 << 16)
            assert more, "the browser ended"
            self.rest += more
        one, _, self.rest = self.rest.partition(b"\0")
        return json.loads(one)

    def ask(self, method, session=None, **params):
        self.count += 1
        request = {"id": self.count, "method": method, "params": params}
        if session or self.session:
            request["sessionId"] = session or self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def open(self, address, width=1280, height=900, dark=False):
        """In a tab of its own."""
        self.session = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target,
                                flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")
        self.ask("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=False,
                 flatten=True)
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.ask("Page.navigate", url=address)
        self.wait("document.documentElement && document.readyState == 'complete'")

    def in_frame(self):
        """For value() and wait(): the session of the page's last frame, which has a process of its
        own."""
        until = time.monotonic() + patience.seconds(20)
        while time.monotonic() < until:
            self.value("1")  # events up to now
            attached = [event["params"] for event in self.events
                        if event["method"] == "Target.attachedToTarget"]
            frames = [one for one in attached if one["targetInfo"]["type"] == "iframe"]
            if frames:
                return frames[-1]["sessionId"]
            time.sleep(0.05)
        raise AssertionError(f"no frame: {[one['targetInfo'] for one in attached]}")

    def value(self, expression, session=None):
        result = self.ask("Runtime.evaluate", session, expression=expression, returnByValue=True,
                          awaitPromise=True)
        assert "exceptionDetails" not in result, json.dumps(result["exceptionDetails"])[:500]
        return result["result"].get("value")

    def wait(self, expression, seconds=30, session=None):
        """Until it is true; what it is."""
        until = time.monotonic() + patience.seconds(seconds)
        while time.monotonic() < until:
            value = self.value(expression, session)
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError(f"not within {seconds} s: {expression}")

    def type(self, text):
        self.ask("Input.insertText", text=text)

    def press(self, key, code=0, modifiers=0):
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                     windowsVirtualKeyCode=code, modifiers=modifiers, **text)

    def picture(self, path):
        shot = self.ask("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))

    def complaints(self):
        """Exceptions and errors of the console so far, and what was loaded besides the page."""
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"])[:300])
            if event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(params["entry"]["text"])
            if event["method"] == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("file:", "blob:", "about:")):
                    found.append(f"a request: {url[:100]}")
        return found
