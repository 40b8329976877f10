"""Child processes that never outlive their test: ended by pid, and with their parent should it be
killed."""
import ctypes
import fcntl
import os
import random
import signal
import socket
import subprocess
import tempfile
import time

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
# Below the kernel's range for outgoing connections, which would snatch a port between choosing and
# binding it; with
# the port of a cluster bus (10,000 above) still below that range.
PORTS = range(11000, 21900)
LOCKS = os.path.join(tempfile.gettempdir(), "e2e-ports")
_given = set()
_locks = []


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _claimed(port):
    """False when another worker, or another run on this machine, holds the port's lock."""
    os.makedirs(LOCKS, exist_ok=True)
    lock = os.open(os.path.join(LOCKS, str(port)), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return False
    _locks.append(lock)  # Held until this process ends.
    return True


def _bindable(port):
    for kind, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(kind) as probe:
            try:
                probe.bind((host, port))
            except OSError:
                return False
    return True


def free_port():
    while True:
        port = random.choice(PORTS)
        if port not in _given and _bindable(port) and _claimed(port):
            _given.add(port)
            return port


def start(command, stdout, stderr, env=None, cwd=None):
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        env=env,
        cwd=cwd,
        preexec_fn=die_with_parent,
    )


def end(process, patience=10.0):
    """SIGTERM, then SIGKILL for what stays; the exit status."""
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return process.returncode


def run(command, timeout=20.0, stdin=None, env=None, cwd=None):
    """A program that ends by itself: CompletedProcess with text output."""
    return subprocess.run(
        command,
        input=stdin,
        stdin=None if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=timeout,
        env=env,
        cwd=cwd,
        preexec_fn=die_with_parent,
        text=True,
        errors="replace",
    )


def memory(pid, field="VmRSS"):
    """Bytes; VmHWM is the peak."""
    with open("/proc/%d/status" % pid) as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def reset_peak_memory(pid):
    with open("/proc/%d/clear_refs" % pid, "w") as refs:
        refs.write("5")


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def wait_listening(address, seconds, process):
    """Until a connection is accepted; False when the process ended first or the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(address, 1.0):
                return True
        except OSError:
            if process.poll() is not None:
                return False
            time.sleep(0.01)
    return False
