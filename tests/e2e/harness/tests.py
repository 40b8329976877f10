"""How a specification is written down: a function whose name is a sentence, marked with @test.

    @test(stock=True)
    def an_unknown_command_keeps_the_connection(shop): ...

Its parameters are what it wants:
  shop    the file's shared Shop, emptied before each test; made with the file's SHOP dict, if any
  fresh   fresh(**arguments) starts a Shop of the test's own
  stock   a stock redis-server, shared and emptied like `shop`
  binary  the path of slotproxy;  folder: an empty directory
"""
import inspect

SECONDS = 30


class Test:
    def __init__(self, function, stock, slow, long, seconds):
        self.function, self.stock, self.slow, self.long = function, stock, slow, long
        self.seconds = seconds
        self.file = function.__module__
        self.wants = list(inspect.signature(function).parameters)

    @property
    def name(self):
        return self.file + ": " + self.function.__name__.replace("_", " ")


def test(function=None, *, stock=False, slow=False, long=False, seconds=SECONDS):
    """stock: holds for real servers too (`run --stock` checks that). slow: only with --all. long:
    not with --fast.
    seconds: the time limit."""

    def mark(marked):
        marked.specification = Test(marked, stock, slow, long, seconds)
        return marked

    return mark(function) if function else mark


def tests_of(module):
    return [
        item.specification
        for item in vars(module).values()
        if inspect.isfunction(item)
        and hasattr(item, "specification")
        and item.__module__ == module.__name__
    ]
