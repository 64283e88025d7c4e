"""A run that was stopped or killed, whenever, goes on to the numbers of one that was not; a damaged file says so."""

import json
import os
import pickle
import random
import signal
import time
from pathlib import Path

import pytest
import torch

from companion import checkpoint
from companion.models import Seq2SeqTransformer
from companion.recipes import RECIPES, recipe
from companion.train import main
from tests.companion.train_children import TINY, Child, log, newest, steps, until

STEPS = 40
RUN = ["reverse", *TINY, "--steps", str(STEPS), "--every", "3", "--evaluate-every", "10", "--warmup", "5"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with Child(*RUN, "--out", str(out)) as child:
        assert child.status() == 0, child.output
    return out


def same_end(out: Path, whole: Path) -> None:
    """All losses, rates, norms and evaluations, and the last parameters, are the same to the bit."""
    assert log(out) == log(whole)
    assert [line["step"] for line in log(out) if line["event"] == "step"] == list(range(1, STEPS + 1))
    (ours, about), (theirs, told) = newest(out), newest(whole)
    assert ours.keys() == theirs.keys()
    for name in ours.keys() - {"history.tokens_per_second"}:
        assert torch.equal(ours[name].nan_to_num(), theirs[name].nan_to_num()), name
    assert about["evaluations"] == told["evaluations"]


def leftovers(out: Path) -> list[str]:
    return [path.name for path in out.iterdir() if path.name.endswith(".unfinished")]


@pytest.mark.slow
def test_killed_again_and_again_it_ends_where_it_would_have(whole: Path, tmp_path: Path):
    """At random moments, whatever it is doing. With a checkpoint each step, many of them are in a write."""
    out, chance = tmp_path / "run", random.Random(0)
    kills, status = 0, None
    while status != 0:
        # After so many more lines, or, every third time, while it is getting ready.
        lines = steps(out) + chance.randint(1, 3) if kills % 3 else 0
        with Child(*RUN, "--every", "1", "--out", str(out), "--resume") as child:
            until(lambda child=child, lines=lines: steps(out) >= lines or not child.process.is_alive(), child)
            time.sleep(chance.random() * (0.01 if lines else 0.2))
            if kills < 14:
                child.process.kill()
            status = child.status()
        assert status in (0, -signal.SIGKILL), child.output
        kills += status != 0
        for path in checkpoint.checkpoints(out):
            checkpoint.read(path)  # whole, all of them
    assert kills >= 5
    same_end(out, whole)
    assert not leftovers(out)


def hang(at: str) -> None:
    """In the child: let the fourth checkpoint's write stop at a point, and tell."""
    fsync, replace, seen = os.fsync, os.replace, []

    def stop(path: str) -> None:
        Path(path).parent.joinpath("here").touch()
        time.sleep(600)

    def slow_fsync(handle: int) -> None:
        name = os.readlink(f"/proc/self/fd/{handle}")
        if name.endswith(".safetensors.unfinished"):
            seen.append(name)
            if len(seen) == 4 and at == "half":
                os.truncate(name, os.stat(name).st_size // 2)
                stop(name)
        fsync(handle)

    def slow_replace(source: Path, target: Path) -> None:
        if len(seen) == 4 and at == "before":
            stop(str(target))
        replace(source, target)
        if len(seen) == 4 and at == "after":
            stop(str(target))

    os.fsync, os.replace = slow_fsync, slow_replace


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="a file's name is found through /proc")
@pytest.mark.parametrize(("at", "left"), [("half", 9), ("before", 9), ("after", 12)])
def test_killed_in_a_write_the_last_good_one_stays(at: str, left: int, whole: Path, tmp_path: Path):
    out = tmp_path / "run"
    with Child(*RUN, "--out", str(out), before=hang, at=at) as child:
        until((out / "here").exists, child)
        child.kill()
    assert bool(leftovers(out)) == (at != "after")
    _, about = newest(out)
    assert about["step"] == left
    assert len([line for line in log(out) if line["event"] == "step"]) == 12
    with (out / "log.jsonl").open("a") as torn:
        torn.write('{"event": "step", "ste')  # a line that was being written
    with Child(*RUN, "--out", str(out), "--resume") as child:
        assert child.status() == 0, child.output
        assert f"Going on after step {left}." in child.output
    same_end(out, whole)
    assert not leftovers(out)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_it_saves_first(number: signal.Signals, whole: Path, tmp_path: Path):
    out = tmp_path / "run"
    with Child(*RUN, "--out", str(out), before=dawdle) as child:
        until(lambda: steps(out) >= 4, child)
        child.send(number)
        assert child.status() == 128 + number, child.output
        said = child.output
    _, about = newest(out)
    assert about["step"] == len([line for line in log(out) if line["event"] == "step"]) < STEPS
    assert f"Stopped after step {about['step']}." in said
    assert f"python -m companion.train reverse --out {out} --resume" in said
    with Child("reverse", "--out", str(out), "--resume") as child:
        assert child.status() == 0, child.output
    same_end(out, whole)


def dawdle(at: str) -> None:
    """In the child: steps slow enough to be stopped between."""
    from companion.trainer import Trainer

    update = Trainer.update

    def slow(self, supply) -> None:
        update(self, supply)
        time.sleep(float(at or 0.05))

    Trainer.update = slow


@pytest.mark.slow
def test_a_second_ctrl_c_does_not_wait(tmp_path: Path):
    out = tmp_path / "run"
    with Child(*RUN, "--out", str(out), before=dawdle, at="600") as child:
        until((out / "log.jsonl").exists, child)
        time.sleep(0.3)  # in the first step, or asleep after it
        child.send(signal.SIGINT)
        time.sleep(0.1)
        child.send(signal.SIGINT)
        assert child.status() == 130, child.output
        assert "Stopped at once.\nThere is no checkpoint yet." in child.output


@pytest.mark.slow
def test_two_runs_do_not_share_a_folder(tmp_path: Path):
    out = tmp_path / "run"
    with Child(*RUN, "--out", str(out), before=dawdle, at="600") as child:
        until((out / "log.jsonl").exists, child)
        with Child(*RUN, "--out", str(out), "--resume") as second:
            assert second.status() == 2
            assert f"error: another run is writing into {out}" in second.output
        child.kill()
    with Child(*RUN, "--out", str(out)) as child:  # a lock goes with its process
        assert child.status() == 0, child.output


# --- Files -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "deep" / "model.safetensors"
    arguments = ["reverse", "--out", str(whole), "--resume", "--export", str(path), "--export-dtype", "float16"]
    assert main(arguments) == 0  # finished: it only exports
    return path


def test_a_model_is_read_back(whole: Path, exported: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was unpickled")

    for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")):
        monkeypatch.setattr(module, name, refuse)
    tensors, _ = newest(whole)
    model, task = checkpoint.load(whole)
    assert type(model) is Seq2SeqTransformer
    assert not model.training
    assert (task.length, task.count) == (4, 16)
    assert model.config.d_model == 8
    for name, x in model.state_dict().items():
        assert torch.equal(x, tensors[f"model.{name}"])
    half, _ = checkpoint.load(str(exported), device="cpu")
    for name, x in half.state_dict().items():
        assert x.dtype is torch.float32
        assert torch.equal(x, tensors[f"model.{name}"].half().float())
    batch = task.batch(3)
    score = half(batch.source, batch.target)
    torch.testing.assert_close(score, model(batch.source, batch.target), rtol=0.02, atol=0.02)


def test_the_file_is_what_it_is_said_to_be(whole: Path, exported: Path):
    """safetensors and JSON, as any other program reads them."""
    size = int.from_bytes(exported.read_bytes()[:8], "little")
    header = json.loads(exported.read_bytes()[8 : 8 + size])
    about = json.loads(header.pop("__metadata__")["about"])
    assert set(about) == {"config"}
    assert about["config"]["recipe"] == "reverse"
    assert {entry["dtype"] for entry in header.values()} == {"F16"}
    tensors, about = newest(whole)
    assert about["command"][:4] == ["python", "-m", "companion.train", "reverse"]
    assert about["config"]["training"]["batch_size"] == 4
    assert {name.split(".")[0] for name in tensors} == {"model", "optimizer", "history", "random"}


@pytest.mark.parametrize("name", list(RECIPES))
def test_the_book_can_carry_its_models(name: str, tmp_path: Path):
    """At most 2 MB, as trained by default; and each can be described, built and read back."""
    made = recipe(name)
    config = made.config(made.task().vocab_size)
    model = made.kind(config)
    path = tmp_path / "model.safetensors"
    checkpoint.export(path, model.state_dict(), checkpoint.describe(name, made.options, config), torch.float32)
    assert path.stat().st_size < 2e6
    again, task = checkpoint.load(path)
    assert again.config == config
    assert task.vocab_size == config.vocab_size
    for key, x in again.state_dict().items():
        assert torch.equal(x, model.state_dict()[key])


def test_every_damage_is_seen(exported: Path, tmp_path: Path):
    good, path, chance = exported.read_bytes(), tmp_path / "bad.safetensors", random.Random(0)
    tensors, about = checkpoint.read(exported)

    def refused(content: bytes) -> bool:
        path.write_bytes(content)
        try:
            found, words = checkpoint.read(path)
        except ValueError as error:
            return str(path) in str(error)
        # Harmless, then: space between the header and the tensors.
        assert words == about
        assert all(torch.equal(found[name], x) for name, x in tensors.items())
        return False

    for length in (0, 1, 7, 8, 100, len(good) // 2, len(good) - 1):
        assert refused(good[:length])
    assert refused(good + b"\0")
    flips = [
        good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :] for at in chance.sample(range(len(good)), 300)
    ]
    assert sum(map(refused, flips)) >= 290


def test_what_is_none_of_ours_is_refused(exported: Path, tmp_path: Path):
    from safetensors.torch import save_file

    path = tmp_path / "other.safetensors"
    save_file({"weight": torch.ones(2)}, path)
    with pytest.raises(ValueError, match=f"{path} was not written by companion.train"):
        checkpoint.load(path)
    torch.save({"weight": torch.ones(2)}, path)
    with pytest.raises(ValueError, match=f"{path} is damaged, cut short, or no safetensors file"):
        checkpoint.load(path)
    for missing in (tmp_path / "no.safetensors", str(tmp_path / "no")):
        with pytest.raises(FileNotFoundError, match="no"):
            checkpoint.load(missing)
    tensors, about = checkpoint.read(exported)
    for change in (
        {"recipe": "translate"},
        {"task": {"colours": 3}},
        {"model": about["config"]["model"] | {"d_model": 16}},
        {"model": about["config"]["model"] | {"vocab_size": 5}},
        {"model": {"depth": 1}},
    ):
        checkpoint.write(path, tensors, {"config": about["config"] | change})
        with pytest.raises(ValueError, match=f"{path} does not describe the model whose weights it holds"):
            checkpoint.load(path)
    checkpoint.write(path, tensors, {})
    with pytest.raises(ValueError, match="does not describe"):
        checkpoint.load(path)


def test_a_write_that_fails_leaves_what_was_there(exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "model.safetensors"
    checkpoint.write(path, {"x": torch.ones(2)}, {})

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.write(path, {"x": torch.zeros(2)}, {})
    assert [each.name for each in tmp_path.iterdir()] == ["model.safetensors"]
    assert checkpoint.read(path)[0]["x"].tolist() == [1, 1]


def test_the_newest_is_the_one_with_the_highest_number(tmp_path: Path):
    for step in (5, 999_999, 1_000_000, 20):
        checkpoint.write(checkpoint.place(tmp_path, step), {"x": torch.tensor(step)}, {})
    (tmp_path / "checkpoint-x.safetensors").touch()
    (tmp_path / ".checkpoint-000021.safetensors.unfinished").touch()
    found = checkpoint.newest(tmp_path)
    assert found is not None
    assert checkpoint.read(found)[0]["x"] == 1_000_000
    checkpoint.tidy(tmp_path, 2)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["checkpoint-1000000.safetensors", "checkpoint-999999.safetensors", "checkpoint-x.safetensors"]
    assert checkpoint.newest(tmp_path / "nowhere") is None
