"""Benchmarks: their arithmetic on clocks that are made up, and every case at a size that takes no time."""

import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from companion import bench
from companion.benchmarks import cases, figure, machine, memory, report, subjects
from companion.benchmarks.duel import compared, judged
from companion.benchmarks.results import Goal, Results, Row, Spread, from_json, to_json
from companion.benchmarks.settings import ON_CUDA, QUICK, Job, NotHereError, Settings, Sizes
from companion.benchmarks.timing import exponent, interleave, ratios, spread, stopwatch

BOOK = Path(__file__).parents[2] / "book"
STORED = BOOK / "results" / "bench-cpu.json"
TINY = Sizes(
    heads=2,
    width=4,
    tiny=4,
    attend=(8,),
    naive=(8,),
    layer=(8,),
    chunked=32,
    window=4,
    window_at=32,
    window_over=(16, 32),
    memory_over=(16, 32),
    memory_naive_over=(16, 32),
    decode_at=(2, 6),
    decode_layers=1,
    vocabulary=20,
    small_vocabulary=10,
    imports=1,
    backends=(8,),
    matmul=16,
)


# --- the arithmetic ---


class Clock:
    """Stands still but while a contender runs, who takes what is foretold."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order: list[str] = []

    def __call__(self) -> float:
        return self.now

    def contender(self, name: str, *seconds: float):
        rest = list(seconds)

        def run() -> None:
            self.order.append(name)
            self.now += rest.pop(0) if len(rest) > 1 else rest[0]

        return run


def test_a_race_gives_each_contender_its_own_times():
    clock = Clock()
    made = {"a": clock.contender("a", 1.0), "b": clock.contender("b", 9.0, 9.0, 2.0, 3.0, 4.0, 3.0)}
    times = interleave(made, rounds=4, seconds=1000, take=stopwatch(clock=clock))
    assert times == {"a": [1.0] * 4, "b": [2.0, 3.0, 4.0, 3.0]}  # what it took to warm up is not among them
    assert ratios(times["b"], times["a"]) == [2.0, 3.0, 4.0, 3.0]


def test_turns_are_taken_every_round_in_orders_that_differ():
    clock = Clock()
    names = "abc"
    interleave(
        {x: clock.contender(x, 1.0) for x in names}, rounds=20, warmup=1, seconds=1000, take=stopwatch(clock=clock)
    )
    rounds = [clock.order[i : i + 3] for i in range(3, len(clock.order), 3)]
    assert all(sorted(turn) == list(names) for turn in rounds)
    assert len({"".join(turn) for turn in rounds}) > 1


def test_the_same_seed_draws_the_same_orders():
    drawn = []
    for seed in (1, 1, 2):
        clock = Clock()
        made = {x: clock.contender(x, 1.0) for x in "abcd"}
        interleave(made, rounds=10, seed=seed, seconds=1000, take=stopwatch(clock=clock))
        drawn.append(clock.order)
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_race_ends_when_its_time_is_spent_but_not_before_the_third_round():
    for seconds, rounds in ((1.0, 3), (20.0, 11), (1000.0, 50)):
        clock = Clock()
        made = {x: clock.contender(x, 1.0) for x in "ab"}
        assert len(interleave(made, rounds=50, seconds=seconds, take=stopwatch(clock=clock))["a"]) == rounds


def test_what_is_short_is_called_several_times_in_a_row():
    clock = Clock()
    made = {"short": clock.contender("short", 1e-4), "long": clock.contender("long", 0.5)}
    times = interleave(made, rounds=2, warmup=1, seconds=1000, take=stopwatch(clock=clock))
    assert clock.order.count("short") == clock.order.count("long") == 1 + 2 * 10  # a millisecond's worth, both
    assert times["short"] == pytest.approx([1e-4] * 2)
    assert times["long"] == pytest.approx([0.5] * 2)


def test_the_garbage_collector_is_off_meanwhile_and_on_again_afterwards():
    import gc

    seen = []
    interleave({"a": lambda: seen.append(gc.isenabled())}, rounds=2)
    assert not any(seen)
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        interleave({"a": lambda: 1 / 0})
    assert gc.isenabled()
    gc.disable()
    try:
        interleave({"a": lambda: None}, rounds=1)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_noisy_neighbour_does_not_decide():
    """Every third round is ten times slower, for both."""
    ours = [1.2 * (10 if i % 3 == 0 else 1) for i in range(30)]
    theirs = [1.0 * (10 if i % 3 == 0 else 1) for i in range(30)]
    assert spread(ratios(ours, theirs)) == pytest.approx((1.2, 1.2, 1.2, 30))


@pytest.mark.parametrize(
    ("values", "expected"),
    [([7.0], (7, 7, 7, 1)), ([1.0, 3.0], (2, 1.5, 2.5, 2)), ([4.0, 1.0, 2.0, 3.0], (2.5, 1.75, 3.25, 4))],
)
def test_quartiles(values: list[float], expected: tuple[float, ...]):
    assert spread(values) == expected


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 1.7, 2.0, 3.0])
def test_the_exponent_of_a_known_power(power: float):
    sizes = [3, 10, 31, 100]
    assert exponent(sizes, [0.7 * n**power for n in sizes]) == pytest.approx(power, abs=1e-12)


def test_the_exponent_of_two_points_is_the_slope_between_them():
    assert exponent([10, 1000], [3, 30]) == pytest.approx(0.5)


def test_a_measure_is_what_it_says():
    ours, theirs = [2.0, 4.0, 6.0], [1.0, 1.0, 2.0]
    assert compared("ratio", ours, theirs).median == 3.0
    assert compared("speedup", ours, theirs).median == pytest.approx(1 / 3)
    assert compared("added", ours, theirs).median == 3.0


def test_the_rate_is_operations_by_time_and_its_share_that_of_a_product(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("companion.benchmarks.duel.matmul_rate", lambda settings: 100.0)
    row = judged(Settings(), Row("x", "y"), [2.0, 2.0], [1.0, 1.0], flops=50.0)
    assert (row.rate, row.share) == (25.0, 0.25)


def test_operations_are_counted_as_two_products():
    settings = Settings(sizes=replace(TINY, heads=2, width=4))
    # QK^T and AV: for each of 2 heads and 8 x 8 pairs 4 multiplications and 4 additions, twice.
    once = 2 * (2 * 8 * 8 * (4 + 4))
    assert subjects.flops(settings, 8) == once
    assert subjects.flops(settings, 8, causal=True) == once / 2
    assert subjects.flops(settings, 8, backward=True) == 3.5 * once


# --- what is measured is the same computation ---


@pytest.mark.parametrize("causal", [False, True])
def test_baselines_compute_attention(causal: bool):
    query, key, value = (torch.randn(1, 2, 20, 4, dtype=torch.float64) for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    torch.testing.assert_close(subjects.naive(query, key, value, causal), expected)
    torch.testing.assert_close(subjects.pytorch(query, key, value, causal), expected)


def test_plain_blocks_compute_attention(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subjects, "PLAIN_BLOCK", 8)
    query, key, value = (torch.randn(1, 2, 20, 4, dtype=torch.float64) for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    torch.testing.assert_close(subjects.plain_blocks(query, key, value), expected)


def test_forward_keeps_no_graph_and_backward_gives_a_gradient_for_everything():
    inputs = Settings(sizes=TINY).qkv(8, grad=True)
    weight = torch.ones(1, requires_grad=True)
    assert not subjects.forward(subjects.pytorch, inputs)().requires_grad
    run = subjects.forward_backward(lambda q, k, v: weight * subjects.pytorch(q, k, v), inputs, [weight])
    gradients = run()
    assert [x.shape for x in gradients] == [x.shape for x in (*inputs, weight)]
    assert all(bool(x.any()) for x in gradients)
    assert all(x.grad is None for x in inputs)  # nothing adds up from run to run


# --- every case ---


@pytest.fixture
def _in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full collection takes a tenth of a second where many tests have left their objects."""
    monkeypatch.setattr("companion.benchmarks.timing.gc.collect", lambda *_: 0)


def tiny(**changes: object) -> Settings:
    return replace(Settings(sizes=TINY, rounds=1, seconds=0.01), **changes)


IN_PROCESS = [name for name in cases.CASES if name not in ("memory", "import", "backends")]


@pytest.mark.usefixtures("_in_no_time")
@pytest.mark.parametrize("name", IN_PROCESS)
def test_a_case_runs(name: str):
    told = []
    results = cases.run([name], tiny(), lambda done, of, job: told.append((done, of, job.what)))
    assert results.rows
    assert {row.case for row in results.rows} == {name}
    assert told == [(i, len(told), what) for i, (_, _, what) in enumerate(told)]
    for row in results.rows:
        assert not row.failed, row.note
        assert (row.value is None) == bool(row.note), row
        if row.value is not None:
            assert math.isfinite(row.value.median)
            assert row.value.low <= row.value.median <= row.value.high
            assert row.our_cost is not None
            assert row.our_cost > 0
    report.terminal(results)


@pytest.mark.usefixtures("_in_no_time")
def test_what_is_measured_in_another_process_runs(monkeypatch: pytest.MonkeyPatch):
    """The process is played by this one, whose peak grows by 100 bytes a position."""
    asked = []
    few = ("reference", "math", "flash", "cudnn", "chunked")  # flex would be compiled
    monkeypatch.setattr("companion.benchmarks.attention_cases.BACKENDS", few)
    monkeypatch.setattr(memory, "_in_a_process", lambda order: asked.append(order) or 100 * order.length)
    monkeypatch.setattr("companion.benchmarks.process_cases._import_once", lambda: (2.0, 0.05))
    results = cases.run(["memory", "import", "backends"], tiny())
    assert not [row for row in results.rows if row.failed]
    powers = [row.value.median for row in results.of("memory")]
    assert powers == pytest.approx([1.0] * len(powers))
    assert {order.length for order in asked} >= {16, 32}
    (imports,) = results.of("import")
    assert (imports.value.median, imports.their_cost, imports.verdict) == (0.05, 2.0, "met")
    ran = [row for row in results.of("backends") if row.value is not None]
    assert {row.ours for row in ran} >= {"reference", "math", "flash"}
    for row in ran:
        assert row.peak == 800
        assert row.rate > 0
        assert row.share > 0
    assert [row for row in results.of("backends") if row.ours == "cudnn" and "NVIDIA" in row.note]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the peak before cannot be forgotten")
def test_peak_memory_is_what_the_scores_take():
    """The softmax of 8 heads of 1,024 x 1,024 scores in float32 holds two such tables at once, 32 MiB each."""
    found = memory.peak(Settings(), "naive", 1024, backward=False)
    assert 64 * 2**20 <= found <= 72 * 2**20


def test_the_other_process_passes_on_why_not():
    order = memory.Order("backend:cudnn", 8, False, False, 2, 4, 4, "float32")
    with pytest.raises(NotHereError, match="NVIDIA"):
        memory.run_of(order, order.settings())


def test_memory_is_measured_in_this_process_as_in_another():
    order = memory.Order("pytorch", 256, True, False, 2, 4, 4, "float32")
    assert memory.measure(order) >= 0


def test_a_case_that_is_not_there_or_breaks_is_a_row():
    goal = Goal(2.0)

    def missing() -> list[Row]:
        raise NotHereError("not yet.")

    def broken() -> list[Row]:
        raise RuntimeError("out of luck\nat line 3")

    for run, verdict, note in ((missing, "not run", "not yet."), (broken, "failed", "RuntimeError: out of luck")):
        (row,) = Job("x", "y", run, goal, ("ours", "theirs")).rows()
        assert (row.verdict, row.note, row.falls_short) == (verdict, note, True)


def test_backends_that_do_not_exist_are_not_there():
    with pytest.raises(NotHereError, match="no backend 'imagined'"):
        subjects.need("imagined", Settings(sizes=TINY).qkv(4))


def test_goals_hold_where_they_were_promised():
    full = {name: [job.goal for job in case.jobs(Settings()) if job.goal] for name, case in cases.CASES.items()}
    assert {name for name, goals in full.items() if goals} == {*cases.CASES} - {"naive", "backends"}
    limits = {name: {goal.limit for goal in goals} for name, goals in full.items()}
    assert limits["attend"] == {1.03, 20e-6}
    assert (limits["multihead"], limits["chunked"], limits["memory"]) == ({1.0}, {2.5}, {1.1})
    assert (limits["window"], limits["decoding"], limits["import"]) == ({3.0, 1.1}, {1.1, 15.0}, {0.1})
    elsewhere = [Settings(judged=False), Settings.of(torch.device("cpu"), torch.float16)]
    for settings in (*elsewhere, Settings.of(torch.device("cuda"), torch.bfloat16)):
        assert not [job for case in cases.CASES.values() for job in case.jobs(settings) if job.goal]
    assert Settings.of(torch.device("cuda"), torch.bfloat16).sizes is ON_CUDA
    quick = Settings.of(torch.device("cpu"), torch.float32, quick=True)
    assert quick.sizes is QUICK
    assert {job.goal.limit for case in cases.CASES.values() for job in case.jobs(quick) if job.goal} == {
        1.03,
        20e-6,
        0.1,
    }


def test_the_machine_is_described_and_nobody_is_named():
    found = machine.describe(torch.device("cpu"))
    assert {"processor", "cores", "threads", "PyTorch", "Python", "date"} <= found.keys()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"])
    said = " ".join(found.values())
    import getpass
    import platform

    assert platform.node() not in said or len(platform.node()) < 3
    assert not re.search(rf"/home|/root|\b{re.escape(getpass.getuser())}\b", said)


# --- the report ---

ROWS = [
    Row("attend", "forward, n = 8", "a", "t", 1.5e-3, 1e-3, value=Spread(1.5, 1.4, 1.6, 9), goal=Goal(1.03)),
    Row(
        "attend", "small", "a", "t", 3e-5, 1e-5, measure="added", value=Spread(2e-5, 1.9e-5, 2.5e-5, 9), goal=Goal(2e-5)
    ),
    Row(
        "window",
        "forward, n = 16",
        "w",
        "c",
        0.25,
        1.0,
        measure="speedup",
        value=Spread(4.0, 3.9, 4.1, 5),
        goal=Goal(3.0, at_most=False),
    ),
    Row(
        "window",
        "forward, n = 8 to 16",
        "w",
        our_cost=0.25,
        measure="exponent",
        value=Spread(1.0, 1.0, 1.0, 1),
        series={"w": [(8.0, 0.1), (16.0, 0.25)]},
    ),
    Row(
        "memory",
        "forward + backward",
        "m",
        our_cost=3 * 2**20,
        unit="B",
        measure="exponent",
        value=Spread(2.0, 2.0, 2.0, 1),
        series={"m": [(8, 2**20), (16, 3 * 2**20)]},
    ),
    Row("backends", "flex", "flex", "t", note="flex has no backward on a CPU."),
    Row("backends", "math", "math", "t", 2.0, 1.0, value=Spread(2, 2, 2, 1), peak=2**30, rate=4e9, share=0.5),
]
MADE = Results({"processor": "A <brand> | B"}, {"dtype": "float32"}, ROWS)


def test_verdicts():
    assert [row.verdict for row in ROWS] == ["missed", "met", "met", "", "", "not run", ""]
    assert [row.falls_short for row in ROWS] == [True] + [False] * 6


def test_json_comes_back_as_it_went():
    assert from_json(to_json(MADE)) == MADE
    assert to_json(from_json(to_json(MADE))) == to_json(MADE)


def test_stored_numbers_have_four_digits():
    stored = from_json(to_json(Results({}, {}, [Row("x", "y", our_cost=1 / 3, their_cost=123456789.0)])))
    assert (stored.rows[0].our_cost, stored.rows[0].their_cost) == (0.3333, 123500000)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 0}', '{"version": 1}'])
def test_other_json_is_refused(text: str):
    with pytest.raises(ValueError, match="results"):
        from_json(text)


@pytest.mark.parametrize(
    "change", [{"measure": "taste"}, {"colour": "red"}, {"value": 3}, {"goal": {"limit": 1, "x": 2}}]
)
def test_json_with_strange_rows_is_refused(change: dict[str, object]):
    whole = json.loads(to_json(MADE))
    whole["rows"][0] |= change
    with pytest.raises(ValueError, match="form that this program does not write"):
        from_json(json.dumps(whole))


def test_the_table_on_a_terminal():
    lines = report.terminal(MADE).splitlines()
    cells = [re.split(r"  +", line) for line in lines]
    assert ["forward, n = 8", "1.50 ms", "1.00 ms", "1.500 [1.400, 1.600]", "≤ 1.03", "missed"] in cells
    assert ["small", "30.0 µs", "10.0 µs", "+20.0 µs [19.0, 25.0]", "≤ 20 µs", "met"] in cells
    assert ["forward, n = 16", "250 ms", "1.00 s", "4.00× [3.90, 4.10]", "≥ 3×", "met"] in cells
    assert ["forward, n = 8 to 16", "250 ms", "1.000"] in cells
    assert ["forward + backward", "3.00 MiB", "2.000"] in cells
    assert ["math", "2.00 s", "1.00 s", "2.000", "1.00 GiB", "4.00 GFLOP/s", "50%"] in cells
    assert "not run: flex: flex has no backward on a CPU." in lines  # a sentence would spread the columns
    assert lines[-2:] == ["2 of 3 goals met.", "  missed: attend: forward, n = 8"]


def test_the_table_in_markdown():
    text = report.markdown(MADE).replace("\N{NO-BREAK SPACE}", " ")
    assert "| processor | A &lt;brand> \\| B |" in text
    assert "| forward, n = 8 | 1.50 ms | 1.00 ms | 1.500 \\[1.400, 1.600] | ≤ 1.03 | missed |" in text
    for case in ("machine", "attend", "window", "memory", "backends"):
        assert text.count(f"<!-- {case} -->") == text.count(f"<!-- end of {case} -->") == 1
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_a_narrow_column_keeps_a_number_and_its_unit_together():
    (line,) = (line for line in report.markdown(MADE).splitlines() if line.startswith("| forward") and "missed" in line)
    assert line.replace("\N{NO-BREAK SPACE}", "_").split(" | ")[:5] == [
        "| forward, n_=_8",
        "1.50_ms",
        "1.00_ms",
        "1.500 \\[1.400,_1.600]",
        "≤_1.03",
    ]


@pytest.mark.parametrize(
    ("x", "text"), [(0, "0"), (0.1234, "0.12"), (1.0, "1.00"), (9.876, "9.88"), (98.76, "98.8"), (987.6, "988")]
)
def test_three_digits(x: float, text: str):
    assert report.digits(x) == text


def test_a_time_is_told_in_its_own_unit():
    assert [report.seconds(x) for x in (2.0, 0.25, 3e-5, 4e-9, 0.0)] == [
        "2.00 s",
        "250 ms",
        "30.0 µs",
        "4.00 ns",
        "0 ns",
    ]


def test_the_figure_has_the_lines(tmp_path: Path):
    file = tmp_path / "lines.png"
    assert figure.draw(MADE, file)
    assert file.read_bytes().startswith(b"\x89PNG")
    assert figure.lines(MADE, figure.PANELS[1]) == {"m": [(8, 1.0), (16, 3.0)]}
    assert not figure.draw(Results({}, {}, ROWS[:1]), tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


# --- the command line ---


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "all.json"
    path.write_text(to_json(MADE), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["attention"], "no case attention; choose from attend, "),
        (["--device", "tpu9"], "--device must be cpu, cuda or cuda:N, got tpu9"),
        (["--device", "meta"], "--device must be cpu, cuda or cuda:N, got meta"),
        (["--dtype", "int8"], "invalid choice: 'int8'"),
        (["--threads", "0"], "--threads must be at least 1, got 0"),
        (["--json", "/nowhere/at/all.json"], "--json: there is no folder /nowhere/at"),
        (["--markdown", "."], "--markdown: . is a folder"),
        (["--figure", "lines.jpg"], "must end in .png, .svg or .pdf, got lines.jpg"),
        (["--load", "/nowhere.json"], "--load: "),
        (["--load", "x.json", "--quick", "attend"], "does not go with cases, quick"),
        (["--frobnicate"], "unrecognized arguments"),
    ],
)
def test_a_wrong_command_line_is_told_what_is_wrong(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as left:
        bench.main(arguments)
    assert left.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_without_a_gpu_the_command_line_says_so(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        bench.main(["--device", "cuda"])
    assert "PyTorch finds no CUDA device here" in capsys.readouterr().err


def test_help_names_every_case_and_option(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        bench.main(["--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    for word in (*cases.CASES, "--quick", "--json", "--figure", "--markdown", "--check", "--load", "examples:"):
        assert word in text


@pytest.mark.usefixtures("_in_no_time")
def test_a_run_writes_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(Settings, "of", staticmethod(lambda *_, **__: tiny()))
    files = {name: tmp_path / f"out.{name}" for name in ("json", "markdown", "png")}
    options = ["--json", files["json"], "--markdown", files["markdown"], "--figure", files["png"]]
    assert bench.main(["decoding", "naive", *map(str, options)]) == 0
    printed = capsys.readouterr()
    assert "naive: attend beside explicit softmax" in printed.out
    results = from_json(files["json"].read_text(encoding="utf-8"))
    assert results.cases == ["naive", "decoding"]  # in the order of the list, whatever was typed
    assert report.markdown(results) == files["markdown"].read_text(encoding="utf-8")
    assert files["png"].exists()
    assert "\r" not in printed.err  # the line that is written over is for terminals


def test_stored_numbers_are_shown_and_checked(stored: Path, capsys: pytest.CaptureFixture[str]):
    assert bench.main(["--load", str(stored)]) == 0
    assert capsys.readouterr().out == report.terminal(MADE)
    assert bench.main(["--load", str(stored), "--check"]) == 1
    stored.write_text(to_json(replace(MADE, rows=ROWS[1:])), encoding="utf-8")
    assert bench.main(["--load", str(stored), "--check"]) == 0


def test_no_lines_no_figure(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    stored.write_text(to_json(replace(MADE, rows=ROWS[:1])), encoding="utf-8")
    assert bench.main(["--load", str(stored), "--figure", str(tmp_path / "x.png")]) == 0
    assert "no lines to draw" in capsys.readouterr().err


def test_what_is_there_is_shown_when_it_is_stopped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def stopped(names: object, settings: object, tell: object, into: list[Row]) -> Results:
        into.append(ROWS[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "run", stopped)
    assert bench.main(["attend"]) == 130
    assert "forward, n = 8" in capsys.readouterr().out


@pytest.mark.parametrize(("wanted", "warned"), [(0.2, False), (30.0, True), (None, False)])
def test_a_busy_machine_is_named(
    wanted: float | None, warned: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(bench, "load", lambda: wanted)
    monkeypatch.setattr(bench, "run", lambda *_: MADE)
    bench.main([])
    assert ("This machine is busy: 30.0 processes" in capsys.readouterr().err) == warned


# --- the book ---


def test_the_book_has_every_case():
    results = from_json(STORED.read_text(encoding="utf-8"))
    assert results.cases == list(cases.CASES)
    page = (BOOK / "benchmarks.md").read_text(encoding="utf-8")
    for name in ("machine", *cases.CASES):
        assert f":start-after: <!-- {name} -->\n:end-before: <!-- end of {name} -->" in page


def test_the_book_shows_what_was_stored():
    """No table is written by hand, or of another run than the JSON."""
    results = from_json(STORED.read_text(encoding="utf-8"))
    assert STORED.with_suffix(".md").read_text(encoding="utf-8") == report.markdown(results)
    assert STORED.with_suffix(".png").exists()
