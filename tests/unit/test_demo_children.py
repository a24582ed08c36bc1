"""Child processes: their exit codes come through, and they end when their parent is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from stream_occ.demo.children import Child, accepts_connections, free_port


def wait_for(condition, timeout_s=10.0):
    """Poll until `condition()` is true; real processes need real time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_exit_code_of_the_command_is_passed_on(tmp_path: Path) -> None:
    """The supervising shell ends with the code of what it started."""
    child = Child([sys.executable, "-c", "print('said'); raise SystemExit(7)"], log_file=tmp_path / "log")
    assert wait_for(lambda: child.exit_code() is not None)
    assert child.stop() == 7
    assert child.log_tail() == "said"


def test_stop_sends_sigterm_and_waits_for_the_command_to_tidy_up(tmp_path: Path) -> None:
    """A command that handles SIGTERM ends in its own way, with its own code."""
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)"
    )
    child = Child([sys.executable, "-c", code], log_file=tmp_path / "log")
    assert wait_for(lambda: child.log_tail() == "ready")
    assert child.exit_code() is None
    assert child.stop() == 3
    assert child.stop() == 3, "a second stop is harmless"


def test_command_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    """`stop` never hangs on a stubborn command."""
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
    )
    child = Child([sys.executable, "-c", code], log_file=tmp_path / "log")
    assert wait_for(lambda: child.log_tail() == "ready")
    assert child.stop(timeout_s=0.2) == -signal.SIGKILL


def test_command_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    """SIGKILL of the parent leaves no orphan behind."""
    code = (
        "import sys, time; from pathlib import Path; from stream_occ.demo.children import Child\n"
        f"child = Child(['sleep', '61.25'], log_file=Path({str(tmp_path / 'log')!r}))\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"ready\n"
    assert wait_for(lambda: sleepers(parent.pid))
    [sleeper] = sleepers(parent.pid)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert wait_for(lambda: not sleeper.is_running() or sleeper.status() == psutil.STATUS_ZOMBIE)


def sleepers(pid: int) -> list[psutil.Process]:
    """The `sleep` processes below `pid`."""
    return [p for p in psutil.Process(pid).children(recursive=True) if p.name() == "sleep"]


def test_free_port_is_free() -> None:
    """Nothing listens on the port that is handed out."""
    assert not accepts_connections(free_port())


@pytest.mark.parametrize("kind", ["mosquitto", "iotcore"])
def test_embedded_broker_listens_on_loopback_and_is_gone_afterwards(kind: str, tmp_path: Path) -> None:
    """Both brokers start on a free port and release it."""
    from stream_occ.demo import broker as embedded_broker

    if kind == "mosquitto" and embedded_broker._mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    if kind == "iotcore":
        pytest.importorskip("iotcore")
    with embedded_broker.embedded_broker(tmp_path, kind=kind) as broker:  # type: ignore[arg-type]
        assert (broker.kind, broker.host) == (kind, "127.0.0.1")
        assert accepts_connections(broker.port)
    assert not accepts_connections(broker.port)


def test_no_broker_at_all_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without mosquitto and iotcore the error names both and says what to install."""
    from stream_occ.demo import broker as embedded_broker
    from stream_occ.errors import ServiceError

    monkeypatch.setattr(embedded_broker, "_mosquitto", lambda: None)
    monkeypatch.setattr(embedded_broker, "find_spec", lambda name: None)
    with pytest.raises(ServiceError, match=r"mosquitto on PATH or the iotcore package; got neither\. Install"):
        embedded_broker.choose_kind()
