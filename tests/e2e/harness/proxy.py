"""One slotproxy process, its configuration file and its end."""
import os
import signal
import subprocess
import threading

from . import processes
from .check import Failure, eventually

SANITIZER_WORDS = (
    "ERROR: AddressSanitizer",
    "ERROR: LeakSanitizer",
    "WARNING: ThreadSanitizer",
    "runtime error:",
    "ERROR: ThreadSanitizer",
    "Assertion",
    "SP_ASSERT",
    "terminate called",
)


def yaml(item, depth=0):
    """Nested dicts, lists and scalars as block YAML."""
    pad = "  " * depth
    if isinstance(item, dict):
        return "".join(_entry(pad + str(key) + ":", val, depth) for key, val in item.items())
    lines = []
    for element in item:
        text = (
            yaml(element, depth + 1)
            if isinstance(element, (dict, list))
            else "  " * (depth + 1) + scalar(element)
        )
        lines.append(pad + "- " + text.lstrip(" ").rstrip("\n") + "\n")
    return "".join(lines)


def _entry(head, val, depth):
    if isinstance(val, dict):
        return head + "\n" + yaml(val, depth + 1) if val else ""
    if isinstance(val, list):
        if all(not isinstance(element, (dict, list)) for element in val):
            return head + " [" + ", ".join(map(scalar, val)) + "]\n"
        return head + "\n" + yaml(val, depth + 1)
    return head + " " + scalar(val) + "\n"


def scalar(val):
    if isinstance(val, bool):
        return "true" if val else "false"
    text = str(val)
    return '"%s"' % text if text == "" or text[0] in "[{&*!|>'\"%@`#" or ": " in text else text


class Proxy:
    def __init__(self, binary, *args, log_path, env=None):
        """Starts `binary` with `args`; standard error goes to `log_path`."""
        self.log_path = log_path
        self.lines = []
        self._ready = threading.Event()
        with open(log_path, "ab") as log:
            self.process = processes.start([binary, *args], subprocess.PIPE, log, env=env)
        self._reader = threading.Thread(target=self._read_stdout, daemon=True)
        self._reader.start()

    def _read_stdout(self):
        for line in self.process.stdout:
            self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
            if self.lines[-1].startswith("ready"):
                self._ready.set()
        self._ready.set()

    @property
    def pid(self):
        return self.process.pid

    def wait_ready(self, seconds=20):
        """Until the line that begins with `ready`; a Failure with what it said instead."""
        if not self._ready.wait(seconds):
            raise Failure(
                "slotproxy printed no line that begins with 'ready' within %g s\n%s"
                % (seconds, self.said())
            )
        if not any(line.startswith("ready") for line in self.lines):
            self.process.wait(5)
            raise Failure(
                "slotproxy ended with %s instead of getting ready\n%s"
                % (self.process.returncode, self.said())
            )
        return self

    def log(self):
        with open(self.log_path, errors="replace") as log:
            return log.read()

    def said(self, lines=20):
        """The last lines of standard output and error, for a report."""
        tail = self.log().splitlines()[-lines:]
        out = ["     proxy's output: " + line for line in self.lines[-6:]]
        return "\n".join(out + ["     proxy's log:    " + line[:300] for line in tail])

    def alive(self):
        return self.process.poll() is None

    def memory(self, field="VmRSS"):
        return processes.memory(self.pid, field)

    def descriptors(self):
        return processes.descriptors(self.pid)

    def signal(self, number):
        self.process.send_signal(number)

    def wait_exit(self, seconds=15):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure("slotproxy did not end within %g s\n%s" % (seconds, self.said()))

    def wait_log(self, text, seconds=5):
        eventually(lambda: text in self.log(), seconds, "the log says %r" % text)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def sanitizer_report(self):
        log = self.log()
        for word in SANITIZER_WORDS:
            at = log.find(word)
            if at >= 0:
                return log[at : at + 3000]
        return None

    def end(self, patience=20):
        """SIGTERM; what was wrong with its end, or None. A process that a test ended itself is not
        judged again."""
        wrong = None
        if self.process.returncode is None:
            died = self.process.poll()
            if died is not None:
                wrong = "slotproxy was dead before the end, status %s" % died
            else:
                self.signal(signal.SIGTERM)
                try:
                    status = self.process.wait(patience)
                    if status != 0:
                        wrong = "slotproxy ended with %s after SIGTERM, wanted 0" % status
                except subprocess.TimeoutExpired:
                    self.kill()
                    wrong = "slotproxy did not end within %g s after SIGTERM" % patience
        report = self.sanitizer_report()
        if report:
            wrong = (wrong + "; " if wrong else "") + "it reported:\n" + report
        self._reader.join(2)
        return wrong + "\n" + self.said() if wrong else None


def find_slotctl(binary):
    return os.environ.get("SLOTCTL") or os.path.join(
        os.path.dirname(os.path.abspath(binary)), "slotctl"
    )
