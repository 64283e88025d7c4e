"""What machine it was, without saying whose: no host, no user, no paths."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import torch

__all__: list[str] = []


def describe(device: torch.device) -> dict[str, str]:
    """What a time depends on, in the order in which it is shown."""
    found = {
        "processor": _processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": str(cores()),
        "threads": str(torch.get_num_threads()),
        "memory": _memory(),
        "system": _system(),
        "Python": platform.python_version(),
        "PyTorch": torch.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "busy at the start": "" if load() is None else f"{load():.1f} processes",
    }
    if device.type == "cuda":
        found |= _gpu(device)
    return {name: word for name, word in found.items() if word}


def _processor() -> str:
    for line in _lines("/proc/cpuinfo"):
        name, _, word = line.partition(":")
        if name.strip() == "model name":
            return " ".join(word.split())
    return platform.processor() or platform.machine()


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> str:
    size = available_memory("MemTotal")
    return "" if size is None else f"{size / 2**30:.0f} GiB"


def available_memory(which: str = "MemAvailable") -> int | None:
    """Bytes, by Linux's own account; None elsewhere."""
    for line in _lines("/proc/meminfo"):
        name, _, rest = line.partition(":")
        if name == which:
            return int(rest.split()[0]) * 1024
    return None


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):  # no Linux, or one that does not say
        return f"{platform.system()} {platform.release()}"


def load() -> float | None:
    """How many processes wanted a core in the minute before; None where the system does not say."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows
        return None


def _gpu(device: torch.device) -> dict[str, str]:
    card = torch.cuda.get_device_properties(device)
    return {
        "GPU": card.name,
        "GPU memory": f"{card.total_memory / 2**30:.0f} GiB",
        "GPU multiprocessors": str(card.multi_processor_count),
        "CUDA": torch.version.cuda or "",
        "driver": _driver(),
    }


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.split("\n")[0].strip() if done.returncode == 0 else ""


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
