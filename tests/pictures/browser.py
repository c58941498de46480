"""Chromium for tests of pages, by PySide6: `python -m tests.pictures.browser page.html < steps.json`.

Steps are pairs: a key to press, a script whose value is printed, a width of the window, or the clipboard.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ |= {"QT_QPA_PLATFORM": "offscreen", "QTWEBENGINE_CHROMIUM_FLAGS": "--no-sandbox --disable-gpu"}

from PySide6.QtCore import QEventLoop, Qt, QTimer, QUrl
from PySide6.QtTest import QTest
from PySide6.QtWebEngineCore import QWebEngineSettings
from PySide6.QtWebEngineWidgets import QWebEngineView
from PySide6.QtWidgets import QApplication


def waited(begin: Any, most: int = 30_000) -> Any:
    """Return what a function is called back with."""
    loop, found = QEventLoop(), []
    QTimer.singleShot(most, loop.quit)
    begin(lambda *given: (found.append(given), loop.quit()))
    loop.exec()
    return found[0][0] if found else None


def main() -> None:
    app, view, found = QApplication([]), QWebEngineView(), []
    view.settings().setAttribute(QWebEngineSettings.WebAttribute.JavascriptCanAccessClipboard, True)
    view.resize(800, 800)
    view.show()
    view.load(QUrl.fromLocalFile(str(Path(sys.argv[1]).resolve())))
    waited(view.loadFinished.connect)
    for step, what in json.load(sys.stdin):
        if step == "js":
            script = f"JSON.stringify({what})"
            found.append(json.loads(waited(lambda done, s=script: view.page().runJavaScript(s, done))))
        elif step == "clipboard":
            found.append(app.clipboard().text())
        else:
            if step == "key":
                QTest.keyClick(view.focusProxy(), getattr(Qt.Key, f"Key_{what}"))
            else:
                view.resize(what, 800)
            waited(lambda done: None, 300)
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # Chromium's own ending may hang


if __name__ == "__main__":
    main()
