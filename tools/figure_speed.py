"""How fast the built figures answer: ``python -m tools.figure_speed`` (after ``make book``), in a headless Chromium.

Writes ``book/results/figures.json``, and ``docs/figure-speed.md`` from it; ``--page`` writes that page alone.
"""

import argparse
import gzip
import json
import re
import statistics
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Browser

from companion.benchmarks import machine
from tools.browser import chromium, serving
from tools.serve import SITE, Handler

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "book" / "results" / "figures.json"
PAGE = ROOT / "docs" / "figure-speed.md"
GALLERY = "widgets-gallery.html"
EMBEDDED = r'<script type="application/vnd\.jupyter\.widget-(?:state|view)\+json">(.*?)</script>'

INPUTS = 60
LOADS = 3
GOALS = {"redraw_ms": 16.0, "ready_ms": 1500.0, "kb": 12.0}
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
MEGABIT = 1_000_000 // 8
# Frames come as soon as they are ready: the wait for a screen's next refresh is no work of the figure.
UNPACED = ("--disable-frame-rate-limit", "--disable-gpu-vsync")

Stored = dict[str, Any]

# For each input that changed the figure: milliseconds to the end of its handlers with layout forced, and to the paint.
REDRAW = """async ([count, wanted]) => {
    const place = document.querySelectorAll('.att-widget')[count];
    place.scrollIntoView({ block: 'center' });
    for (let k = 0; k < 200 && !place.querySelector('.att-status')?.textContent; k++)
        await new Promise(done => setTimeout(done, 25));
    const figure = place.querySelector('.att-figure');
    const shown = e => e.checkVisibility() && !e.disabled;
    const all = selector => [...figure.querySelectorAll(selector)].filter(shown);
    const send = (e, event) => e.dispatchEvent(event);
    const key = name => new KeyboardEvent('keydown', { key: name, code: name, bubbles: true, cancelable: true });
    // One list for each way to work the figure; they take turns. Each item makes ready, and returns what is timed.
    const ways = k => [
        ...all('input[type=range]').map(e => () => {
            const [low, high, step] = [e.min, e.max, e.step].map(Number);
            const steps = Math.round((high - low) / step);
            e.value = low + step * ((k * 7 + 3) % (steps + 1));
            return () => send(e, new Event('input', { bubbles: true }));
        }),
        ...all('input[type=number]').map(e => () => {
            e.value = ((k % 5) - 2) / 2;
            return () => send(e, new Event('change', { bubbles: true }));
        }),
        ...all('[tabindex="0"]').flatMap(e => [
            () => (e.focus(), () => send(e, key(['ArrowRight', 'ArrowDown', 'ArrowLeft', 'ArrowUp'][k % 4]))),
            () => () => e.click?.(),
        ]),
        ...all('input[type=checkbox]').map(e => () => () => e.click()),
    ];
    const watch = new MutationObserver(() => {});
    watch.observe(figure, { subtree: true, childList: true, attributes: true, characterData: true });
    const painted = () => new Promise(done => requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();  // its message comes after the frame
        port1.onmessage = () => done(performance.now());
        port2.postMessage(0);
    }));
    const times = [];
    for (let k = 0, turn = 0; times.length < wanted && k < 8 * wanted; k++, turn++) {
        const now = ways(k);
        const act = now[turn % now.length]();
        await new Promise(done => setTimeout(done, 20));
        watch.takeRecords();
        const start = performance.now();
        act();
        await null;  // a figure draws in a microtask, once for all that an event changes
        void document.documentElement.offsetHeight;
        figure.getBoundingClientRect();
        const worked = performance.now() - start;
        const records = watch.takeRecords();
        const end = await painted();
        if (records.some(r => r.attributeName !== 'tabindex')) times.push([worked, end - start]);
    }
    return times;
}"""

# When the page first painted, and when the figure's first slider (or key) changed something.
READY = """() => {
    window.speed = {};
    new PerformanceObserver(list => {
        for (const { name, startTime } of list.getEntries()) window.speed[name] = startTime;
    }).observe({ type: 'paint', buffered: true });
    window.answered = count => new Promise((done, fail) => {
        const look = async () => {
            const place = document.querySelectorAll('.att-widget')[count];
            const figure = place?.querySelector('.att-figure');
            if (!figure) place?.scrollIntoView();  // those above it grow as they are drawn, and push it away
            const body = figure?.querySelector('.att-body');
            if (body?.firstChild && figure.querySelector('.att-status').textContent) {
                const before = figure.querySelector('.att-body').innerHTML + figure.innerText;
                const slider = [...figure.querySelectorAll('input[type=range]')].find(e => e.checkVisibility());
                const spots = [...figure.querySelectorAll('[tabindex="0"]')].filter(e => e.checkVisibility());
                if (slider) {
                    slider.value = Number(slider.value) > Number(slider.min) ? slider.min : slider.max;
                    slider.dispatchEvent(new Event('input', { bubbles: true }));
                } else for (const spot of spots) for (const key of ['ArrowRight', 'ArrowDown', 'Enter']) {
                    spot.focus();
                    spot.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
                    spot.click?.();
                }
                await null;
                if (figure.querySelector('.att-body').innerHTML + figure.innerText !== before)
                    return done([window.speed['first-paint'], performance.now()]);
            }
            if (performance.now() > 120_000) fail(new Error(`figure ${count} does not answer`));
            else setTimeout(look, 5);
        };
        look();
    });
}"""


class Gzipped(Handler):
    """Serves text gzipped, as a host of pages does."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Send a text whole and small; leave the rest to the parent."""
        path = Path(self.translate_path(self.path))
        if path.suffix not in (".html", ".js", ".css", ".svg") or not path.is_file():
            super().do_GET()
            return
        body = gzip.compress(path.read_bytes(), 6)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def redraws(browser: Browser, address: str) -> dict[str, list[list[float]]]:
    """Of each figure of the gallery: the two times of every input."""
    page = browser.new_page(viewport=DESKTOP)  # type: ignore[arg-type]
    page.goto(f"{address}/{GALLERY}", wait_until="networkidle")
    found = {}
    for count in range(page.locator(".att-widget").count()):
        times = page.evaluate(REDRAW, [count, INPUTS])
        found[_name(page.locator(".att-figure").nth(count).get_attribute("class") or "")] = times
    page.close()
    return found


def homes(site: Path) -> dict[str, tuple[str, int]]:
    """The page on which a reader first meets each figure, a chapter or else the gallery, and its number there."""
    found: dict[str, tuple[str, int]] = {}
    for page in (*sorted(site.glob("[0-9][0-9]-*.html")), site / GALLERY):
        state, *views = re.findall(EMBEDDED, page.read_text(encoding="utf-8"), re.DOTALL) or ["{}"]
        models = json.loads(state).get("state", {})
        for count, view in enumerate(views):
            name = models[json.loads(view)["model_id"]]["state"].get("_anywidget_id", "").split(".")[-2:][0]
            found.setdefault(name, (page.name, count))
    return found


def ready(browser: Browser, address: str, places: list[tuple[str, int]]) -> list[list[float]]:
    """Of each figure, when one goes straight to it on a slow phone: milliseconds from first paint to first answer."""
    waits: list[list[float]] = []
    for home, count in places:
        waits.append([])
        for _ in range(LOADS):
            context = browser.new_context(viewport=PHONE, has_touch=True)  # type: ignore[arg-type]
            page = context.new_page()
            page.add_init_script(f"({READY})()")
            session = context.new_cdp_session(page)
            session.send("Network.enable")
            slow = {"latency": 150, "downloadThroughput": 1.6 * MEGABIT, "uploadThroughput": 0.75 * MEGABIT}
            session.send("Network.emulateNetworkConditions", {"offline": False, **slow})
            session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
            page.goto(f"{address}/{home}", wait_until="commit")
            painted, answered = page.evaluate(f"answered({count})")
            waits[-1].append(max(0.0, answered - painted))
            context.close()
    return waits


def measure(site: Path) -> Stored:
    """Measure everything."""
    about = machine.describe(torch.device("cpu"))
    load = machine.load()
    places = homes(site)
    with serving(site, Gzipped) as address:
        with chromium(*UNPACED) as browser:
            version = browser.version
            times = redraws(browser, address)
        with chromium() as browser:
            waits = ready(browser, address, [places[name] for name in times])
    return {
        "machine": {
            "processor": about["processor"],
            "cores": machine.cores(),
            "load": None if load is None else round(load, 1),
            "chromium": version,
            "date": about["date"],
        },
        "goals": GOALS,
        "figures": {
            name: {
                "inputs": len(pairs),
                "redraw_ms": _median([work for work, _ in pairs]),
                "painted_ms": _median([paint for _, paint in pairs]),
                "ready_ms": round(statistics.median(wait)),
                "page": places[name][0].removesuffix(".html"),
                "loads": len(wait),
                "kb": round(weight(name) / 1000, 1),
            }
            for (name, pairs), wait in zip(times.items(), waits, strict=True)
        },
    }


def weight(name: str) -> int:
    """Bytes of a figure's script and style, gzipped."""
    folder = ROOT / "companion" / "widgets" / "static"
    return sum(len(gzip.compress((folder / f"{name}.{kind}").read_bytes(), 9)) for kind in ("js", "css"))


def text(stored: Stored) -> str:
    """The page of the results."""
    where, goals = stored["machine"], stored["goals"]
    rows = [
        f"| {name} | {one['inputs']} | {one['redraw_ms']} | {one['painted_ms']} | {one['ready_ms']} | {one['page']} "
        f"| {one['kb']} |"
        for name, one in stored["figures"].items()
    ]
    return "\n".join(
        [
            "# How fast the figures answer",
            "",
            "`python -m tools.figure_speed` measures this and writes this page. Each number is a median.",
            "",
            f"Measured on {where['date']}: {where['processor']}, {where['cores']} cores shared with other work "
            f"(load {where['load']}), headless Chromium {where['chromium']}.",
            "",
            "| figure | inputs | redraw, ms | painted, ms | ready, ms | on | size, kB |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            *rows,
            f"| *goal* | | ≤ {goals['redraw_ms']:.0f} | | ≤ {goals['ready_ms']:.0f} | | ≤ {goals['kb']:.0f} |",
            "",
            "- *redraw*: from an input event (a slider, a number, an arrow key, a click) until the figure is drawn and "
            "the page laid out, at default sizes, 1280 pixels wide. Inputs that change nothing do not count.",
            "- *painted*: from the same event until the frame with the change is painted by the processor, without the "
            "wait for a screen's next refresh. A screen of 60 Hz adds 8 ms on average.",
            "- *ready*: on a phone's profile (390 pixels, processor slowed 4 times, 1.6 Mbit/s, 150 ms, nothing "
            "cached, served gzipped), from the first paint of the first page with that figure until its first slider, "
            "or a cell, changes it, when one scrolls straight to it. The median of "
            f"{min(one['loads'] for one in stored['figures'].values())} loads.",
            "- *size*: its script and style, gzipped.",
            "",
        ]
    )


def _name(classes: str) -> str:
    found = re.search(r"att-figure att-(\w+)", classes)
    return found[1] if found else classes


def _median(values: list[float]) -> float:
    return round(statistics.median(values), 1)


def main() -> None:
    """Measure, store and write."""
    parser = argparse.ArgumentParser(description="Measure how fast the built figures answer.")
    parser.add_argument("--site", type=Path, default=SITE)
    parser.add_argument("--page", action="store_true", help="write the page from what is stored")
    chosen = parser.parse_args()
    if not chosen.page:
        if not (chosen.site / GALLERY).exists():
            raise SystemExit("The book is not built yet: make book")
        RESULTS.write_text(json.dumps(measure(chosen.site), indent=1) + "\n", encoding="utf-8")
    page = text(json.loads(RESULTS.read_text(encoding="utf-8")))
    PAGE.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
