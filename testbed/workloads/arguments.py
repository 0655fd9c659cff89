"""Check the extra arguments (`args`) that a file gives to a tool, by the tool's own grammar. Pure.

A table for each command line says of every option whether it takes a value, and
whether a file may give it. The rest is refused: what a key of the file sets already,
what would write or read a file, leave the lab, or change what the testbed measures by,
and what no table knows. Words are taken apart as getopt_long(3) does it, and ccan's
opt_parse (kperf): joined values, bundled flags, abbreviated long names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from testbed.yamlfile import did_you_mean, mistake

# The kernel takes no longer word (MAX_ARG_STRLEN in include/uapi/linux/binfmts.h); one in all is plenty.
_LARGEST = 128 * 1024 - 1

Check = Callable[[str], str | None]


@dataclass(frozen=True)
class Option:
    """An option of a tool under all its names. `value`: what is wrong with its value; None: it takes none.

    `refusal` follows its name in a sentence; None where a file may give it.
    """

    names: tuple[str, ...]
    value: Check | None = None
    refusal: str | None = None


def flag(*names: str) -> Option:
    """An option without value that a file may give."""
    return Option(names)


def valued(*names: str, value: Check = lambda _: None) -> Option:
    """An option with a value that a file may give."""
    return Option(names, value)


def key(name: str, *names: str) -> Option:
    """An option that the key `name` of the file sets."""
    return Option(names, refusal=f"is set by the key '{name}'")


def refused(why: str, *names: str) -> Option:
    """An option that `why` keeps out of files: a verb and what follows it."""
    return Option(names, refusal=why)


def address(text: str) -> str | None:
    """Check a literal address, with or without `%device`: a name would be looked up outside the lab."""
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        return f"takes an address, got '{text}'"
    return None


class Refused(ValueError):
    """A word that a file may not give. `index`: which."""

    def __init__(self, index: int, arguments: str) -> None:
        super().__init__(arguments)
        self.index = index


class Grammar:
    """The options of one command line of `tool`."""

    def __init__(self, tool: str, options: Iterable[Option]) -> None:
        self.tool = tool
        self.options = {name: option for option in options for name in option.names}

    def check(self, arguments: Sequence[str]) -> None:
        """Refused for the first word that a file may not add to this command line."""
        _check_size(arguments)
        rest = iter(enumerate(arguments))
        for index, word in rest:
            try:
                self._check_word(word, rest)
            except ValueError as error:
                raise Refused(index, f"'{_short(word)}': {error}") from None

    def _check_word(self, word: str, rest: Iterator[tuple[int, str]]) -> None:
        if word == "--" or not word.startswith("-") or word == "-":
            raise ValueError(f"not an option, and {self.tool} is given nothing else")
        if word.startswith("--"):
            name, equals, attached = word.partition("=")
            self._take(name, self._long(name), attached if equals else None, rest)
            return
        for at, letter in enumerate(word[1:], start=2):
            option = self._find(f"-{letter}")
            self._take(f"-{letter}", option, word[at:] or None if option.value else None, rest)
            if option.value:  # what follows the letter was its value
                return

    def _take(self, name: str, option: Option, attached: str | None, rest: Iterator[tuple[int, str]]) -> None:
        """Take the value of `option`, if it has one, from its own word or the next one."""
        if option.refusal:
            raise ValueError(f"{name} {option.refusal}")
        if option.value is None:
            if attached is not None:
                raise ValueError(f"{name} takes no value")
            return
        value = attached if attached is not None else next(rest, (0, None))[1]
        if value is None:
            raise ValueError(f"{name} needs a value")
        if wrong := option.value(value):
            raise ValueError(f"{name} {wrong}")

    def _long(self, name: str) -> Option:
        """The option that getopt_long takes `name` for. Abbreviations are refused.

        What they stand for depends on the version of the tool.
        """
        if name in self.options:
            return self.options[name]
        whole = [known for known in self.options if known.startswith(name)]
        if not whole:
            return self._find(name)
        for known in whole:
            if refusal := self.options[known].refusal:
                raise ValueError(f"{name} may stand for {known}, which {refusal}")
        raise ValueError(f"write {' or '.join(whole)} in full")

    def _find(self, name: str) -> Option:
        if name not in self.options:
            hint = did_you_mean(name, [known for known in self.options if known.startswith("--")])
            raise ValueError(f"{self.tool} has no option {_short(name)} that is known here{hint}")
        return self.options[name]


def check_arguments(grammar: Grammar, name: str, arguments: Sequence[str]) -> None:
    """The same for a validator of a whole model: a mistake at the word of the field `name`."""
    try:
        grammar.check(arguments)
    except Refused as error:
        raise mistake(str(error), name, error.index) from None


def _check_size(arguments: Sequence[str]) -> None:
    """A command line is bytes without NUL, and not endless."""
    size = 0
    for index, word in enumerate(arguments):
        try:
            size += len(word.encode()) + 1
        except UnicodeEncodeError:
            raise Refused(index, "holds a character that no command line can carry") from None
        if "\0" in word:
            raise Refused(index, "holds a NUL, which no command line can carry")
        if size > _LARGEST:
            raise Refused(index, f"the words so far take {size} bytes; {_LARGEST} is the most")


def _short(word: str) -> str:
    return word if len(word) <= 40 else f"{word[:37]}..."
