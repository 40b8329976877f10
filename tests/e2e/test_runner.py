"""The runner of these tests: what it must not let pass."""
import os

from harness import processes
from harness.check import has, same
from harness.tests import test

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run")


@test
def a_pattern_that_no_test_matches_is_a_failure_that_names_it(binary):
    for more in ((), ("--list",)):
        got = processes.run([RUN, "--binary", binary, "--only", "no such test at all", *more])
        same(got.returncode, 1, "the exit status")
        has(got.stdout, "no test is chosen by --only no such test at all", what="the output")
