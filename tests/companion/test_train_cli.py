"""The command line of ``companion.train``: what it takes, what it says, and that several processes train as one."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
import torch

from companion import checkpoint, parallel, train_flags
from companion.batch import PairBatch
from companion.losses import token_loss
from companion.recipes import RECIPES, batch_at, recipe
from companion.run_folder import RunFolder
from companion.train import main
from companion.training import seed_everything, train
from tests.companion.train_children import TINY, log, newest, steps, two, until

SMALL = ["--d-model", "8", "--num-heads", "2", "--num-layers", "1", "--batch-size", "4"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The last line of what it says, when the command line is wrong."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    usage, error = said.err.strip().split("\n")
    assert usage.startswith("usage: python -m companion.train")
    return error.removeprefix("python -m companion.train: error: ")


def losses(out: Path) -> list[float]:
    return [line["loss"] for line in log(out) if line["event"] == "step"]


# --- One process -------------------------------------------------------------------------------------------------


def test_it_is_the_loop_of_the_chapters(tmp_path: Path):
    """The same batches through ``training.train`` give the same losses, to the bit."""
    options = ["--steps", "6", "--warmup", "3", "--accumulate", "2", "--label-smoothing", "0.1", "--seed", "3"]
    assert main(["reverse", *SMALL, *options, "--dropout", "0.2", "--evaluate-every", "4"]) == 0
    made = recipe("reverse")
    seed_everything(3)
    task = made.task()
    model = made.kind(made.config(task.vocab_size, d_model=8, num_heads=2, num_layers=1, dropout=0.2))
    history = train(
        model,
        (batch_at(task, 4, 3, number) for number in count()),
        steps=6,
        warmup=3,
        accumulate=2,
        label_smoothing=0.1,
        evaluate=made.evaluation(),
        every=4,
    )
    out = tmp_path / "runs" / "reverse"
    assert losses(out) == history.loss
    assert [line for line in log(out) if line["event"] == "evaluation"] == [
        {"event": "evaluation", **said} for said in history.evaluations
    ]
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert set(lines[0]) == {"event", "step", "loss", "learning_rate", "gradient_norm", "tokens_per_second", "time"}
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
    trained, _ = checkpoint.load(out)
    for name, x in trained.state_dict().items():
        assert torch.equal(x, model.state_dict()[name])


@pytest.mark.parametrize("name", list(RECIPES))
def test_each_recipe_trains(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["--steps", "12", "--lr", "0.02", "--warmup", "1", "--every", "5", "--export", "out.safetensors"]
    assert main([name, *SMALL, *words]) == 0
    said = capsys.readouterr().out
    assert f"{name}: 12 steps in " in said
    assert f"checkpoint  {Path('runs', name, 'checkpoint-000012.safetensors')}" in said
    *taken, evaluation = log(tmp_path / "runs" / name)
    assert [line["step"] for line in taken] == list(range(1, 13))
    assert min(line["loss"] for line in taken[-4:]) < taken[0]["loss"]
    assert 0 <= evaluation["accuracy"] < 0.6
    assert ("nats" in evaluation) == RECIPES[name].language
    model, task = checkpoint.load("out.safetensors")
    batch = task.batch(2)
    with torch.no_grad():
        assert token_loss(model, batch).mean.isfinite()


@pytest.mark.slow
def test_it_learns(tmp_path: Path):
    """Measured: .97 of the symbols after 100 steps, 1.2 s; with the target it does not take all 300."""
    assert main(["in-place", "--target", "0.9", "--evaluate-every", "50"]) == 0
    steps_taken = len(losses(tmp_path / "runs" / "in-place"))
    assert steps_taken <= 150
    _, about = newest(tmp_path / "runs" / "in-place")
    assert about["reached"]
    assert main(["in-place", "--resume"]) == 0  # reached is reached
    assert len(losses(tmp_path / "runs" / "in-place")) == steps_taken


def test_batches_are_found_by_their_number():
    task = recipe("reverse").task()
    several = [batch_at(task, 4, 0, number).source for number in range(6)]
    again = batch_at(task, 4, 0, 5).source
    assert torch.equal(again, several[5])
    assert len({tuple(x.flatten().tolist()) for x in several}) == 6
    neighbours = [batch_at(task, 4, 1, number).source for number in range(6)]
    assert not any(torch.equal(a, b) for a in several for b in neighbours)
    torch.rand(3)  # no other source of random numbers is in it
    assert torch.equal(batch_at(task, 4, 0, 2).source, several[2])


def test_held_out_text_is_held_out():
    made = recipe("masked")
    seen, rest = made.task(), made.task(held_out=True)
    assert seen.corpus.text != rest.corpus.text
    batch = rest.batch(4)
    assert (batch.ids != batch.labels)[~batch.counted].sum() == 0
    assert batch.counted.any()


def test_a_run_goes_on_and_longer(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run, whole = ["reverse", *SMALL, "--out", "run", "--every", "2"], ["reverse", *SMALL, "--out", "whole"]
    assert main([*run, "--steps", "3"]) == 0
    assert main([*run, "--steps", "7", "--resume"]) == 0
    assert "Going on after step 3." in capsys.readouterr().out
    assert main([*whole, "--steps", "7"]) == 0
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    files = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert files == [".lock", "checkpoint-000006.safetensors", "checkpoint-000007.safetensors", "log.jsonl"]
    capsys.readouterr()
    assert main([*run, "--resume", "--export", "model.safetensors"]) == 0
    said = capsys.readouterr().out
    assert "run is finished already." in said
    assert 'companion.checkpoint.load("model.safetensors")' in said
    assert main([*run, "--overwrite", "--steps", "1"]) == 0
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")[:1]
    assert [path.name for path in checkpoint.checkpoints(tmp_path / "run")] == ["checkpoint-000001.safetensors"]


def test_resuming_what_has_not_begun_begins(capsys: pytest.CaptureFixture[str]):
    assert main(["copy", *SMALL, "--steps", "1", "--resume"]) == 0
    assert "There is no checkpoint in runs/copy yet: this starts from the beginning." in capsys.readouterr().out


def test_what_differs_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = ["repeats", *SMALL, "--out", "run", "--steps", "2", "--schedule", "cosine", "--warmup", "0"]
    assert main(run) == 0
    before = sorted((path.name, path.stat().st_mtime_ns) for path in (tmp_path / "run").glob("*.*"))
    capsys.readouterr()
    assert refused(capsys, *run) == (
        "run holds a run already (checkpoint-000002.safetensors): go on with --resume, throw it away with --overwrite, "
        "or choose another --out"
    )
    for words, differs in (
        (["--lr", "0.5"], "--lr=0.5 cannot be resumed: the run has --lr=0.002"),
        (["--d-model", "16"], "--d-model=16 cannot be resumed: the run has --d-model=8"),
        (["--symbols", "9"], "--symbols=9 cannot be resumed: the run has --symbols=26"),
        (["--no-norm-first"], "--norm-first=no cannot be resumed: the run has --norm-first=yes"),
        (["--clip", "none"], "--clip=None cannot be resumed: the run has --clip=1"),
        (["--betas", "0.9", "0.98"], "--betas=0.9 0.98 cannot be resumed: the run has --betas=0.9 0.999"),
        (["--steps", "9"], "--steps=9 cannot be resumed: the run has --steps=2"),  # a cosine depends on it
        (["--steps", "1"], "--steps=1 cannot be resumed: the run has --steps=2"),
    ):
        assert refused(capsys, "repeats", "--out", "run", "--resume", *words).startswith(differs)
    assert refused(capsys, "copy", "--out", "run", "--resume") == "the run is one of repeats, not of copy"
    assert refused(capsys, *run, "--resume", "--overwrite") == "--resume and --overwrite exclude each other"
    assert refused(capsys, *run, "--overwrite", "--lr", "-1") == "--lr must be positive, got -1.0"
    assert main([*run, "--resume"]) == 0  # and nothing has been touched
    assert sorted((path.name, path.stat().st_mtime_ns) for path in (tmp_path / "run").glob("*.safetensors")) == [
        each for each in before if each[0].endswith("safetensors")
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "the following arguments are required: RECIPE"),
        ("translate", "argument RECIPE: invalid choice: 'translate' (choose from"),
        ("reverse --steps many", "argument --steps: invalid int value: 'many'"),
        ("reverse --step 3", "unrecognized arguments: --step 3"),
        ("dates --symbols 3", "unrecognized arguments: --symbols 3"),
        ("--symbols 3 dates", "--symbols is nothing that dates has"),
        ("reverse --steps 0", "--steps must be at least 1, got 0"),
        ("reverse --batch-size 0", "--batch-size must be at least 1, got 0"),
        ("reverse --d-model 10", "--d-model=10 must be a multiple of --num-heads=4"),
        ("reverse --length 3 --min-length 4", "--min-length must be at most --length=3, got 4"),
        ("repeats --symbols 3", "periods must be at most 3, for --symbols=3 and --length=48, and --min-period at most"),
        ("masked --rate 2", "--rate must be between 0 and 1, got 2.0"),
        ("reverse --positions there", "argument --positions: invalid choice: 'there'"),
        ("reverse --backend fast", "--backend must be 'auto' or one of"),
        ("reverse --lr nan", "--lr must be finite, got nan"),
        ("reverse --warmup 400", "--warmup must be at most --steps=300, got 400"),
        ("reverse --clip 0", "--clip must be positive, got 0.0"),
        ("reverse --clip all", "argument --clip: invalid number or none value: 'all'"),
        ("reverse --betas 0.9", "argument --betas: expected 2 arguments"),
        ("reverse --betas 0.9 1", "--betas must be less than 1, got (0.9, 1.0)"),
        ("reverse --dropout 1.5", "--dropout must be between 0 and 1, got 1.5"),
        ("reverse --target 2", "--target must be between 0 and 1, got 2.0"),
        ("reverse --evaluate-every 0", "--evaluate-every must be at least 1, got 0"),
        ("reverse --every 0", "--every must be at least 1, got 0"),
        ("reverse --keep 0", "--keep must be at least 1, got 0"),
        ("reverse --threads 0", "--threads must be at least 1, got 0"),
        ("reverse --seed -1", "--seed must be at least 0, got -1"),
        ("reverse --device gpu", "--device must be auto, cpu, cuda or cuda:0, ..., got 'gpu'"),
        ("reverse --device meta", "--device must be auto, cpu, cuda or cuda:0, ..., got 'meta'"),
        ("reverse --device cuda:77", "--device=cuda:77 asks for GPU 77, and there are"),
        ("reverse --parallel ddp", "--parallel=ddp needs torchrun to start the processes: torchrun --nproc-per-node=2"),
        ("reverse --out taken", "--out=taken is a file, and must be a folder"),
    ],
)
def test_a_wrong_command_line_is_told_what_is_wrong(words: str, says: str, capsys: pytest.CaptureFixture[str]):
    Path("taken").touch()
    assert refused(capsys, *words.split()).startswith(says)
    assert [path.name for path in Path().iterdir()] == ["taken"]  # nothing was begun


def test_help_is_for_newcomers(capsys: pytest.CaptureFixture[str]):
    for words, recipes in ((["--help"], list(RECIPES)), *([[name, "--help"], [name]] for name in RECIPES)):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        said = capsys.readouterr().out
        for group in ("what to train", "the model", "the training", "the run", "the machine", "examples"):
            assert f"\n{group}:\n" in said
        for name in recipes:
            assert RECIPES[name].summary in said
        options = re.split(r"\n  (?=-)", said.split("what to train:")[1].split("examples:")[0])[1:]
        assert len(options) > 40
        for option in options:  # each says what holds without it, but for the two that do something
            assert "(default: " in " ".join(option.split()) or option.startswith(("--resume", "--overwrite")), option
        assert max(map(len, said.split("\n"))) <= 120


def test_defaults_are_those_of_the_recipe(capsys: pytest.CaptureFixture[str]):
    def said(*words: str) -> str:
        with pytest.raises(SystemExit):
            main([*words, "--help"])
        return " ".join(capsys.readouterr().out.split())

    assert "--steps N updates in all (default: 1000)" in said("masked")
    assert (
        "--steps N updates in all (default: 300; 600 for dates; 400 for repeats; 1000 for characters, masked)" in said()
    )
    assert "--symbols N how many different symbols there are (default: 26)" in said("repeats")
    assert "--symbols" not in said("dates").split("the model")[0]


def test_the_examples_work():
    lines = [line.strip() for line in train_flags.EPILOG.splitlines() if "-m companion.train " in line]
    commands = [shlex.split(line.split("--resume: ")[-1]) for line in lines]
    assert len(commands) == 4
    for words in commands:
        order = train_flags.parse(words[words.index("companion.train") + 1 :])
        order.config()


def test_a_short_run_warms_up_as_long_as_it_can():
    for words, warmup in (("dates", 50), ("dates --steps 20", 20), ("dates --steps 20 --warmup 5", 5)):
        assert train_flags.parse(words.split()).config()["training"]["warmup"] == warmup


def test_names_are_said_as_the_command_line_has_them():
    said = {
        "d_model=10 must be a multiple of num_heads=4": "--d-model=10 must be a multiple of --num-heads=4",
        "steps must be at least 1": "--steps must be at least 1",
        "the steps of a run": "the steps of a run",
    }
    for message, words in said.items():
        assert train_flags.in_flags(message) == words


# --- When it goes wrong ------------------------------------------------------------------------------------------


def test_a_loss_that_is_not_finite(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = ["reverse", *SMALL, "--norm-first", "--steps", "50", "--every", "1", "--lr", "1e19", "--clip", "none"]
    assert main([*run, "--out", "run"]) == 1
    said = capsys.readouterr().err
    step = len(losses(tmp_path / "run"))
    assert 1 <= step < 50
    assert re.search(
        rf"Stopped: the (loss|gradient's norm) is (nan|inf) at step {step + 1}: a lower learning rate", said
    )
    assert f"Go on from {Path('run')}/checkpoint-{step:06}.safetensors with: python -m companion.train reverse" in said
    _, about = newest(tmp_path / "run")
    assert about["step"] == step
    assert "Traceback" not in said


def test_a_full_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    write = checkpoint.write

    def full(path: Path, *content: object) -> None:
        if path.name == "checkpoint-000004.safetensors":
            raise OSError(28, "No space left on device")
        write(path, *content)

    monkeypatch.setattr(checkpoint, "write", full)
    assert main(["reverse", *SMALL, "--steps", "5", "--every", "2", "--out", "run"]) == 1
    said = capsys.readouterr().err
    assert "Stopped: [Errno 28] No space left on device." in said
    assert "Go on from run/checkpoint-000002.safetensors" in said
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert main(["reverse", "--out", "run", "--resume"]) == 0
    assert len(losses(tmp_path / "run")) == 5


def test_a_damaged_checkpoint_is_named_and_the_one_before_it(capsys: pytest.CaptureFixture[str]):
    assert main(["reverse", *SMALL, "--steps", "4", "--every", "2", "--out", "run"]) == 0
    last = Path("run/checkpoint-000004.safetensors")
    os.truncate(last, 5000)
    capsys.readouterr()
    said = refused(capsys, "reverse", "--out", "run", "--resume")
    assert said.startswith("run/checkpoint-000004.safetensors is damaged, cut short")
    assert said.endswith("delete it to go on from run/checkpoint-000002.safetensors")
    last.unlink()
    assert main(["reverse", "--out", "run", "--resume"]) == 0
    assert len(losses(Path("run"))) == 4


@pytest.mark.slow
def test_a_disk_that_is_full_for_one_of_two(tmp_path: Path):
    """Only the first writes; the other must not wait for it."""
    out = tmp_path / "run"
    children = two(*TOGETHER, "--parallel", "ddp", "--steps", "50", "--out", str(out), before=full_disk)
    try:
        assert children[0].status() == 1
        assert children[1].status() != 0
        assert "Stopped: [Errno 28] No space left on device." in children[0].output
        assert "Go on from" in children[0].output
    finally:
        for child in children:
            child.__exit__()


def full_disk(at: str) -> None:
    """In the child: there is room for one checkpoint."""
    write, written = checkpoint.write, []

    def full(path: Path, *content: object) -> None:
        written.append(path)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        write(path, *content)

    checkpoint.write = full


def test_where_it_ran_is_noted(capsys: pytest.CaptureFixture[str]):
    threads = torch.get_num_threads()
    try:
        assert main(["copy", *SMALL, "--steps", "1", "--threads", str(threads)]) == 0
        assert main(["copy", "--steps", "2", "--resume", "--threads", str(threads + 1)]) == 0
    finally:
        torch.set_num_threads(threads)
    assert f"Note: threads was {threads} and is {threads + 1}: the last digits may differ." in capsys.readouterr().out


def test_a_log_has_each_step_once(tmp_path: Path):
    folder = RunFolder(tmp_path / "run", keep=1)
    folder.begin(0)
    for step in (1, 2, 3):
        folder.log(event="step", step=step)
    folder.close()
    path = tmp_path / "run" / "log.jsonl"
    torn = ["\0\0\0", "3", "[]", '{"event": "note"}', '{"event": "st']  # and what a power cut may leave
    path.write_text(path.read_text() + "\n".join(torn))
    folder = RunFolder(tmp_path / "run", keep=1)
    folder.begin(2)
    folder.log(event="step", step=3, again=True)
    folder.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"event": "step", "step": 1},
        {"event": "step", "step": 2},
        {"event": "step", "step": 3, "again": True},
    ]


def test_half_precision_is_near(tmp_path: Path):
    for precision in ("fp32", "bf16"):
        assert (
            main(["characters", *SMALL, "--steps", "3", "--warmup", "0", "--precision", precision, "--out", precision])
            == 0
        )
    full, half = losses(tmp_path / "fp32"), losses(tmp_path / "bf16")
    assert full != half
    assert half == pytest.approx(full, rel=0.01)
    tensors, _ = newest(tmp_path / "bf16")
    assert all(x.dtype is torch.float32 for name, x in tensors.items() if name.startswith(("model", "optimizer")))


# --- Several processes -------------------------------------------------------------------------------------------

TOGETHER = ["reverse", *TINY, "--dropout", "0", "--min-length", "1", "--batch-size", "5", "--accumulate", "2"]
TOGETHER += ["--lr", "0.01", "--clip", "0.5", "--evaluate-every", "4", "--every", "4"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight steps in one process, with batches of five rows of one to four symbols."""
    out = tmp_path_factory.mktemp("alone") / "run"
    assert main([*TOGETHER, "--steps", "8", "--out", str(out)]) == 0
    return out


def as_alone(out: Path, alone: Path) -> None:
    assert len(log(out)) == len(log(alone)) == 10
    for ours, theirs in zip(log(out), log(alone), strict=True):
        assert ours.keys() == theirs.keys()
        for name, number in theirs.items():
            assert ours[name] == (number if isinstance(number, str) else pytest.approx(number, rel=1e-5)), ours


def together(*words: str) -> list[str]:
    """Run two processes to their end; what each said."""
    children = two(*words)
    try:
        statuses = [child.status() for child in children]
        assert statuses == [0, 0], [child.output for child in children]
    finally:
        for child in children:
            child.__exit__()
    return [child.output for child in children]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_processes_make_the_updates_of_one(kind: str, alone: Path, tmp_path: Path):
    """Rows are parted unevenly, three and two, and have other numbers of tokens: each token weighs the same."""
    out = tmp_path / "run"
    first, second = together(*TOGETHER, "--parallel", kind, "--steps", "8", "--out", str(out))
    as_alone(out, alone)
    assert "step 4: loss" in first
    assert "8 steps in" in first
    assert second == ""
    (ours, about), (theirs, _) = newest(out), newest(alone)
    assert about["where"]["parallel"] == kind
    assert {name: x.shape for name, x in ours.items() if "random" not in name} == {
        name: x.shape for name, x in theirs.items() if "random" not in name
    }
    for name in (name for name in ours if name.startswith("optimizer")):
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-3, atol=1e-6)
    model, task = checkpoint.load(out)  # whole, in one process
    batch = task.batch(4)
    torch.testing.assert_close(
        token_loss(model, batch).mean, token_loss(checkpoint.load(alone).model, batch).mean, rtol=1e-4, atol=0
    )


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), [("fsdp", ""), ("", "fsdp"), ("fsdp", "ddp")])
def test_a_run_may_go_on_with_other_processes(first: str, then: str, alone: Path, tmp_path: Path):
    out = tmp_path / "run"
    for kind, words in ((first, [*TOGETHER, "--steps", "4"]), (then, ["reverse", "--steps", "8", "--resume"])):
        if kind:
            together(*words, "--parallel", kind, "--out", str(out))
        else:
            assert main([*words, "--out", str(out)]) == 0
    as_alone(out, alone)


@pytest.mark.slow
def test_when_one_is_asked_to_stop_both_do(alone: Path, tmp_path: Path):
    from tests.companion.test_checkpoint import dawdle

    out = tmp_path / "run"
    children = two(*TOGETHER, "--parallel", "fsdp", "--steps", "8", "--every", "100", "--out", str(out), before=dawdle)
    try:
        until(lambda: steps(out) >= 2, children[0])
        children[1].send(signal.SIGTERM)
        assert [child.status() for child in children] == [128 + signal.SIGTERM] * 2, [x.output for x in children]
    finally:
        for child in children:
            child.__exit__()
    assert "torchrun --nproc-per-node=2 -m companion.train reverse" in children[0].output
    assert "--resume --parallel fsdp" in children[0].output
    assert newest(out)[1]["step"] == len(losses(out)) < 8
    together("reverse", "--resume", "--parallel", "fsdp", "--out", str(out))
    as_alone(out, alone)


@pytest.mark.slow
def test_dropout_differs_between_processes_and_goes_on(tmp_path: Path):
    """Two processes, stopped and resumed, draw what they would have drawn; and not the same as each other."""
    run = [*TOGETHER, "--dropout", "0.3", "--parallel", "ddp"]
    together(*run, "--steps", "8", "--out", str(tmp_path / "whole"))
    together(*run, "--steps", "4", "--out", str(tmp_path / "run"))
    together(*run, "--steps", "8", "--resume", "--out", str(tmp_path / "run"))
    assert log(tmp_path / "run") == log(tmp_path / "whole")
    tensors, _ = newest(tmp_path / "run")
    first, second = tensors["random.torch"]
    assert not torch.equal(first, second)


@pytest.mark.slow
def test_torchrun_starts_it(alone: Path, tmp_path: Path):
    """As a reader would type it, each process importing everything anew."""
    out = tmp_path / "run"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "-m", "companion.train", *TOGETHER]
    done = subprocess.run(
        [*command, "--parallel", "fsdp", "--steps", "8", "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("8 steps in") == 1
    as_alone(out, alone)


@pytest.mark.slow
def test_python_starts_it(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "companion.train", "copy", *SMALL, "--steps", "2", "--out", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=Path(__file__).parents[2],
    )
    assert (done.returncode, done.stderr) == (0, "")  # no bar where nobody looks
    assert "copy: 2 steps in" in done.stdout


def test_rows_are_parted_without_a_gap():
    pair = recipe("reverse").task().batch(7)
    for world in (1, 2, 3, 7):
        parts = []
        for rank in range(world):
            team = parallel.Replicas.__new__(parallel.Replicas)
            team.rank, team.world = rank, world
            parts.append(team.rows(pair))
        assert all(len(part.source) for part in parts)
        for whole, *pieces in zip(pair, *parts, strict=True):
            assert torch.equal(torch.cat(pieces), whole)
    assert isinstance(parts[0], PairBatch)


@pytest.mark.slow
def test_more_processes_than_rows_are_refused(tmp_path: Path):
    children = two("reverse", *TINY, "--batch-size", "1", "--out", str(tmp_path / "run"))
    try:
        assert [child.status() for child in children] == [2, 2]
        assert "error: --batch-size must be at least 2, a row a process, got 1" in children[0].output
        assert children[1].output == ""
    finally:
        for child in children:
            child.__exit__()


def test_the_device_of_a_process(monkeypatch: pytest.MonkeyPatch):
    assert parallel.pick_device("cpu") == torch.device("cpu")
    gpus = {"is_available": lambda: True, "device_count": lambda: 2, "set_device": lambda device: None}
    for name, function in gpus.items():
        monkeypatch.setattr(torch.cuda, name, function)
    assert parallel.pick_device("auto") == torch.device("cuda", 0)
    assert parallel.pick_device("cuda:1") == torch.device("cuda", 1)
    for name, number in {"RANK": 1, "WORLD_SIZE": 2, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 2}.items():
        monkeypatch.setenv(name, str(number))
    assert parallel.pick_device("auto") == torch.device("cuda", 1)
    with pytest.raises(ValueError, match="device must be cuda where torchrun gives each process one of its own"):
        parallel.pick_device("cuda:0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")  # not enough for all
    assert parallel.pick_device("auto") == torch.device("cpu")
