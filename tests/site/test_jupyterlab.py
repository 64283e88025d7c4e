"""The figures live in JupyterLab, in a real browser with a real kernel."""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.companion.optional import need
from tests.site.pages import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CELLS = [
    "from companion.widgets import SoftmaxExplorer\nexplorer = SoftmaxExplorer(scores=[1.0, 0.0])\nexplorer",
    "explorer.temperature = 0.5\nprint('set', explorer.temperature)",
    "print('read', explorer.temperature)",
    "import ipywidgets\nipywidgets.HBox([SoftmaxExplorer(scores=[0.0, 0.0]), ipywidgets.Label('beside it')])",
    "ipywidgets.VBox([SoftmaxExplorer() for _ in range(20)])",
    """import ipywidgets
linked = SoftmaxExplorer(scores=[1.0, 0.0])
heard = []
linked.observe(lambda change: heard.append(change.new), "temperature")
twin = ipywidgets.FloatSlider(description="twin", min=0.1, max=4.0, step=0.1, value=1.0)
link = ipywidgets.jslink((twin, "value"), (linked, "temperature"))
ipywidgets.VBox([twin, linked])""",
    "print('heard', heard[-1], 'twin', twin.value)",
    "from companion import exercises\npractice = exercises.open('ch05', folder='.')\npractice.show('spared')",
    "practice.check('spared')",
    "practice = exercises.open('ch05', folder='.')\nprint(practice)",
    "practice.show('axis')",
    "print(practice.answer('axis', 'both').name)",
    "print(practice.check('axis').name)",
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a JupyterLab that serves one notebook."""
    need("jupyterlab")
    folder = tmp_path_factory.mktemp("lab")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    notebook.metadata["kernelspec"] = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    nbformat.write(notebook, folder / "figures.ipynb")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1"]
    command += ["--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True", f"--ServerApp.root_dir={folder}"]
    command += ["--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    log = (folder / "log").open("w")
    server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{address}/api/status", timeout=2).close()
                break
            except OSError:
                assert server.poll() is None, Path(folder / "log").read_text()[-2000:]
                time.sleep(0.25)
        yield address
    finally:
        server.terminate()
        server.wait(20)
        log.close()


@pytest.fixture(scope="module")
def page(lab: str, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1200, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(f"{lab}/lab/tree/figures.ipynb?reset")
    page.locator(".jp-Notebook .jp-CodeCell").nth(len(CELLS) - 1).wait_for()
    page.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']").wait_for()
    yield page
    context.close()


def run(page: Page, count: int) -> Locator:
    """Run a cell by its key, and return its output."""
    cell = page.locator(".jp-Notebook .jp-CodeCell").nth(count)
    prompt = cell.locator(".jp-InputArea-prompt")
    before = prompt.inner_text()
    for _ in range(20):  # a kernel that is still starting may miss the key
        cell.locator(".cm-content").click()
        page.keyboard.press("Control+Enter")
        with suppress(AssertionError):
            expect(prompt).not_to_have_text(before, timeout=5_000)
            break
    expect(prompt).to_have_text(re.compile(r"\[\d+\]:"), timeout=60_000)
    assert prompt.inner_text() != before
    return cell.locator(".jp-Cell-outputArea")


def test_it_lives_and_both_sides_hear_each_other(page: Page) -> None:
    figure = run(page, 0).locator(".att-figure")
    expect(figure.locator(".att-status")).to_contain_text("0.731, of key 1")
    expect(run(page, 1)).to_contain_text("set 0.5")
    expect(figure.locator(".att-status")).to_contain_text("0.881, of key 1")  # 1 / (1 + e^-2)
    figure.get_by_label("temperature").click(position={"x": 1, "y": 12})  # JupyterLab takes keys until one clicks
    figure.get_by_label("temperature").press("Home")
    figure.get_by_label("temperature").press("ArrowRight")
    expect(figure.locator(".att-slider output").first).to_have_text("0.2")
    expect(run(page, 2)).to_contain_text("read 0.2")


def test_its_cell_can_be_run_again(page: Page) -> None:
    for _ in range(3):
        output = run(page, 0)
        expect(output.locator(".att-figure")).to_have_count(1)
        expect(output.locator(".att-status")).to_contain_text("0.731, of key 1")
    output.get_by_label("temperature").focus()
    page.keyboard.press("Home")
    expect(output.locator(".att-status")).to_contain_text("1.000, of key 1")


def test_it_stands_beside_other_widgets(page: Page) -> None:
    output = run(page, 3)
    expect(output.locator(".att-status")).to_contain_text("0.500, of key 1")
    expect(output).to_contain_text("beside it")


def test_twenty_on_a_page_do_not_slow_it_down(page: Page) -> None:
    """Work, not time: a change in one figure touches that figure alone, and no other draws."""
    output = run(page, 4)
    expect(output.locator(".att-figure")).to_have_count(20)
    touched = output.evaluate(
        """async (area) => {
            const figures = [...area.querySelectorAll('.att-figure')];
            const touched = new Set();
            const watch = new MutationObserver((all) => {
                for (const { target } of all) touched.add(figures.findIndex((f) => f.contains(target)));
            });
            watch.observe(area, { subtree: true, childList: true, attributes: true, characterData: true });
            const slider = figures[7].querySelector('input[type=range]');
            slider.value = '2';
            slider.dispatchEvent(new Event('input', { bubbles: true }));
            await new Promise((done) => setTimeout(done, 1000));
            watch.disconnect();
            return [...touched];
        }"""
    )
    assert touched == [7]


def test_python_hears_the_reader_and_a_linked_slider_moves_with_it(page: Page) -> None:
    output = run(page, 5)
    figure, readout = output.locator(".att-figure"), output.locator(".widget-readout")
    expect(figure.locator(".att-status")).to_contain_text("0.731, of key 1")
    temperature = figure.get_by_label("temperature")
    temperature.click(position={"x": 1, "y": 12})
    temperature.press("End")
    expect(readout).to_have_text("4.00")
    expect(run(page, 6)).to_contain_text("heard 4.0 twin 4.0")
    # And the other way: the plain slider turns the figure.
    readout.click()
    readout.fill("0.5")
    readout.press("Enter")
    expect(figure.locator(".att-status")).to_contain_text("0.881, of key 1")  # 1 / (1 + e^-2)
    expect(run(page, 6)).to_contain_text("heard 0.5 twin 0.5")


def test_a_question_hears_the_page_and_keeps_the_answer(page: Page) -> None:
    output = run(page, 7)
    question = output.locator(".att-question")
    box = question.get_by_label("no query sees a later key")
    box.focus()
    box.press("Space")
    question.get_by_role("button", name="Check").press("Enter")
    expect(question.locator(".att-verdict")).to_contain_text("Not yet. You picked a number of another table.")
    expect(run(page, 8)).to_contain_text("Not yet. You picked a number of another table.")
    expect(run(page, 9)).to_contain_text(re.compile(r"axis .* open\s+masked .* open\s+spared .* not yet"))


def test_a_question_hears_the_cells(page: Page) -> None:
    question = run(page, 10).locator(".att-question")
    expect(question.locator(".att-verdict")).to_have_text("Choose, then press Check.")
    expect(run(page, 11)).to_contain_text("both")
    expect(question.get_by_label("Over the whole table.")).to_be_checked()
    expect(question.locator(".att-verdict")).to_contain_text("Not yet. Then one unit of attention")
    question.get_by_label("Along each row, over the keys.").press("Space")
    expect(question.locator(".att-verdict")).to_have_text("Choose, then press Check.")
    question.get_by_role("button", name="Check").press("Enter")
    expect(question.locator(".att-verdict")).to_contain_text("Right.")
    expect(run(page, 12)).to_contain_text("keys")
