"""From an experiment file and the command line to resolved states: everything a round needs, checked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel

from testbed import yamlfile
from testbed.analysis.expect import parse
from testbed.devices.settings import Settings
from testbed.errors import InputError
from testbed.experiments.parameters import filled_in, unknown
from testbed.experiments.spec import Cpus, Experiment, Text, Variation, word
from testbed.topology.assignment import GRAMMAR, parse_assignment, parse_value
from testbed.topology.checks import check
from testbed.topology.loading import find_topology, load_topology
from testbed.topology.names import fits
from testbed.topology.spec import Topology
from testbed.topology.sysctls import mistake_in, overlaid
from testbed.workloads import parse_options
from testbed.workloads.tool import Options
from testbed.yamlfile import Document, did_you_mean


@dataclass(frozen=True)
class ResolvedState:
    """One state with nothing left to look up. It travels as JSON to the kernel that measures it."""

    name: str
    topology: Topology
    workload: Options
    cpus: dict[str, list[int]]
    requires: dict[str, str]
    kernel: str | None
    settings: dict[str, dict[str, Any]]  # what the experiment changes, for headers and reports

    def as_record(self) -> dict[str, Any]:
        return {
            "topology": self.topology.model_dump(mode="json", exclude_unset=True, by_alias=True),
            "workload": self.workload.model_dump(mode="json", exclude_unset=True, by_alias=True),
            "cpus": self.cpus,
            "requires": self.requires,
            "kernel": self.kernel,
            "settings": self.settings,
        }

    @classmethod
    def from_record(cls, name: str, record: Mapping[str, Any]) -> ResolvedState:
        """ValueError or InputError for a record that no experiment's file could have become."""
        fields = _StateRecord.model_validate(record)
        check(fields.topology)
        options = parse_options(fields.workload)
        for node in [*sorted(options.nodes), *fields.cpus]:
            if node not in fields.topology.nodes:
                raise InputError(f"state {name}: its topology has no node '{node}'")
        return cls(
            name, fields.topology, options, fields.cpus, fields.requires, fields.kernel, fields.settings
        )


class _StateRecord(BaseModel):
    """What `as_record` gives: from the run of this program, or from anybody's file."""

    topology: Topology
    workload: dict[str, Any]
    cpus: dict[str, Cpus]
    requires: dict[str, Text]
    kernel: str | None
    settings: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Resolved:
    """An experiment ready to run. `states`: the selected ones, in the file's order."""

    name: str
    experiment: Experiment
    states: dict[str, ResolvedState]
    document: Document | None = None  # None where it was rebuilt from a record

    def error(self, state: str, message: str) -> InputError:
        """An error about a state's settings, with file and line where they are known."""
        message = f"state {state}: {message}"
        if self.document is None:
            return InputError(message)
        return self.document.error(_place(self.document, state, "settings"), message)

    def comparisons(self) -> list[tuple[str, str]]:
        """The requested comparisons whose two states are selected."""
        return [(a, b) for a, b in self.experiment.comparisons() if a in self.states and b in self.states]

    def as_record(self) -> dict[str, Any]:
        """The experiment as run.json keeps it: comparisons and expectations of these states only."""
        record = self.experiment.model_dump(mode="json", exclude_unset=True, by_alias=True)
        record |= {"name": self.name, "compare": [list(pair) for pair in self.comparisons()]}
        if "expect" in record:
            record["expect"] = [
                kept
                for entry in record["expect"]
                if (kept := {w: c for w, c in entry.items() if self._runs(w)})
            ]
        return record

    def _runs(self, who: str) -> bool:
        """Whether every state of an expectation (`a`, `a / b` or `*`) is among these."""
        return all(part.strip() in (*self.states, "*") for part in who.split(" / "))


def shipped_folder() -> Path:
    """Where the shipped experiments are: in the wheel, or at the top of a checkout."""
    packaged = Path(str(files("testbed.experiments"))) / "shipped"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "experiments"


def shipped() -> list[str]:
    """The names of the shipped experiments."""
    return sorted(path.stem for path in shipped_folder().glob("*.yaml"))


def find_experiment(name: str) -> Path:
    """The file of a shipped name or a path. InputError, with the nearest names, for neither."""
    if "/" in name or name.endswith((".yaml", ".yml")):
        return Path(name)
    path = shipped_folder() / f"{name}.yaml"
    if path.exists():
        return path
    known = shipped()
    hint = did_you_mean(name, known) or f"; shipped are {', '.join(known)}"
    raise InputError(f"{name}: no such experiment{hint}")


SECTIONS = ("parameters", "workload", "cpus", "protocol", "collect")
"""What `--set SECTION.KEY=VALUE` can change beside settings."""
_OVER_STATES = ("workload", "cpus")  # they win over every state's own
_BY_NAME = ("parameters", "cpus")  # their keys are names of the file, which may hold dots


class Override(NamedTuple):
    """A tree of values as the file would hold them, and the option that it came from."""

    tree: dict[str, Any]
    origin: str


def load_experiment(name: str, *, overrides: Sequence[Override] = (), states: Sequence[str] = ()) -> Resolved:
    """Read, check and resolve an experiment.

    `overrides` go over the file's values; their `overrides` (settings, workload,
    cpus) win over every state's too. `states` keeps only these.
    """
    path = find_experiment(name)
    try:
        word(path.stem, "an experiment")
    except ValueError as error:
        raise InputError(f"{path}: {error}; its runs are called by it") from None
    document = yamlfile.load(path)
    for tree, origin in overrides if isinstance(document.value, dict) else ():
        _check_parameters(path, document.value.get("parameters") or {}, tree, origin)
        document.value.update(merge(document.value, tree))
        document.origins.update(dict.fromkeys(_leaves(tree), origin))
    document = filled_in(document)
    experiment = yamlfile.validate(document, Experiment)
    variations = experiment.variations()
    for state in states:
        if state not in variations:
            hint = did_you_mean(state, list(variations)) or f"; the states are {', '.join(variations)}"
            raise InputError(f"{path}: no state '{state}'{hint}")
    wanted = {state: variations[state] for state in (dict.fromkeys(states) or variations)}
    resolved = {state: _resolve(document, state, steps) for state, steps in wanted.items()}
    _check_expectations(document, experiment, resolved)
    return Resolved(path.stem, experiment, resolved, document)


def _check_parameters(path: Path, known: Any, tree: Mapping[str, Any], origin: str) -> None:
    """InputError for an override of a parameter that the file does not declare: it would change nothing."""
    for name in tree.get("parameters", {}):
        if isinstance(known, dict) and name not in known:
            raise InputError(f"{origin}: {path}: {unknown(name, known)}")


def _leaves(tree: Mapping[str, Any], above: yamlfile.Key = ()) -> Iterator[yamlfile.Key]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key)


def _check_expectations(
    document: Document, experiment: Experiment, states: Mapping[str, ResolvedState]
) -> None:
    """InputError for an expectation about a device that its state's topology does not have."""
    for index, entry in enumerate(experiment.expect):
        for one in parse([entry], list(experiment.variations())):
            if isinstance(one.key, str) or one.state not in states:
                continue
            place = one.key.reference
            known = [str(end) for end in states[one.state].topology.placed()]
            if place not in known:
                hint = did_you_mean(place, known) or f"; there are {', '.join(known)}"
                raise document.error(("expect", index), f"{one}: the topology has no device '{place}'{hint}")


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the values of `over` on top, mapping by mapping."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[key] = merge(below, value) if both else value  # type: ignore[arg-type]
    return result


def parse_override(text: str) -> Override:
    """`--set` as an override.

    `NODE:DEVICE.SETTING=VALUE`, or `SECTION.KEY=VALUE` with one of SECTIONS. A key inside
    a key has a dot: `protocol.noise.steal=1%`. InputError for anything else.
    """
    origin = f"--set {text}"
    name, equals, word = text.partition("=")
    if ":" in name:
        place, settings = parse_assignment(text, origin)
        return Override({"overrides": {"settings": {place: settings}}}, origin)
    section, dot, key = name.strip().partition(".")
    if not (equals and dot and key):
        raise InputError(f"{origin}: expected {GRAMMAR} or workload.KEY=VALUE")
    if section not in SECTIONS:
        known = f"{', '.join(SECTIONS)}{did_you_mean(section, list(SECTIONS))}"
        raise InputError(f"{origin}: '{section}' is neither NODE:DEVICE nor one of {known}")
    tree: Any = parse_value(word, origin)
    for part in reversed([key] if section in _BY_NAME else key.split(".")):
        tree = {part: tree}
    tree = {section: tree}
    return Override({"overrides": tree} if section in _OVER_STATES else tree, origin)


def _resolve(document: Document, name: str, steps: Sequence[Variation]) -> ResolvedState:
    topology = _topology(document, name, _last(step.topology for step in steps) or "")
    workload: dict[str, Any] = {}
    cpus: dict[str, list[int]] = {}
    requires: dict[str, str] = {}
    changed: dict[str, Settings] = {}
    sysctls: dict[str, dict[str, int | str]] = {}
    for step in steps:
        workload = merge(workload, step.workload)
        requires |= step.requires
        for node, listed in step.cpus.items():
            cpus[_node(document, name, topology, node, "cpus")] = listed
        for pattern, settings in step.settings.items():
            for place in _places(document, name, topology, pattern):
                changed[place] = changed.get(place, Settings()).overlaid(settings)
        for pattern, values in step.sysctls.items():
            for node in _nodes(document, name, topology, pattern):
                _check_sysctls(document, name, topology, pattern, node, values)
                sysctls[node] = overlaid(sysctls.get(node, {}), values)
    options = _workload(document, name, workload)
    for node in sorted(options.nodes):
        _node(document, name, topology, node, "workload")
    topology = topology.with_settings(changed).with_sysctls(sysctls)
    shown = {
        place: settings.model_dump(mode="json", exclude_unset=True) for place, settings in changed.items()
    }
    kernel = _last(step.kernel for step in steps)
    return ResolvedState(name, topology, options, cpus, requires, kernel, shown)


def _topology(document: Document, state: str, name: str) -> Topology:
    try:
        path = find_topology(name, Path(document.source).parent)
    except InputError as error:
        raise document.error(_place(document, state, "topology"), f"state {state}: {error}") from None
    return load_topology(path)


def _last(values: Iterator[str | None]) -> str | None:
    return [None, *(value for value in values if value is not None)][-1]


def _workload(document: Document, state: str, options: Mapping[str, Any]) -> Options:
    try:
        return parse_options(options)
    except InputError as error:
        named = str(error).removeprefix("workload.").partition(":")[0].split(".")
        option: yamlfile.Key = tuple(int(part) if part.isdecimal() else part for part in named)
        overridden: yamlfile.Key = ("overrides", "workload", *option[:1])
        if document.origin(overridden):
            raise document.error(overridden, str(error)) from None
        raise document.error(_option(document, state, option), f"state {state}: {error}") from None


def _option(document: Document, state: str, option: yamlfile.Key) -> yamlfile.Key:
    """Where `option` of a state's workload, such as ("args", 0), stands: the strongest place that has it."""
    axes = [key for key in document.lines if len(key) == 5 and key[0] == "matrix" and key[4] == "workload"]
    for place in (("states", state, "workload"), *axes, ("workload",)):
        if (*place, *option[:1]) in document.lines:
            return (*place, *option)
    return _place(document, state, "workload")


def _places(document: Document, state: str, topology: Topology, pattern: str) -> list[str]:
    """The `node:device`s that `pattern` fits; a pattern that fits none is a mistake."""
    known = [str(end) for end in topology.placed()]
    return _fitting(document, state, known, pattern, "settings", "device")


def _nodes(document: Document, state: str, topology: Topology, pattern: str) -> list[str]:
    return _fitting(document, state, list(topology.nodes), pattern, "sysctls", "node")


def _check_sysctls(
    document: Document, state: str, topology: Topology, pattern: str, node: str, names: Iterable[str]
) -> None:
    """InputError for a sysctl of a device that the node does not have."""
    devices = topology.devices()[node]
    for name in names:
        if mistake := mistake_in(name, devices):
            key = (*_place(document, state, "sysctls"), pattern, name)
            raise document.error(key, f"state {state}: {node}: {mistake}")


def _node(document: Document, state: str, topology: Topology, node: str, section: str) -> str:
    return _fitting(document, state, list(topology.nodes), node, section, "node")[0]


def _fitting(
    document: Document, state: str, known: list[str], pattern: str, section: str, what: str
) -> list[str]:
    fitting = [name for name in known if fits(name, pattern)]
    if fitting:
        return fitting
    hint = did_you_mean(pattern, known) or f"; there are {', '.join(known)}"
    if document.origin(("overrides", section, pattern)):
        raise document.error(("overrides", section, pattern), f"the topology has no {what} '{pattern}'{hint}")
    key = _place(document, state, section)
    key = (*key, pattern) if (*key, pattern) in document.lines else key
    raise document.error(key, f"state {state}: {section}: the topology has no {what} '{pattern}'{hint}")


def _place(document: Document, state: str, section: str) -> tuple[str | int, ...]:
    """Where a state's section stands in the file: with the state, or with the whole experiment."""
    own: tuple[str | int, ...] = ("states", state, section)
    return own if own in document.lines else (section,)


def dump(resolved: Resolved, *, as_json: bool = False) -> str:
    """The resolved experiment as YAML or JSON, for `testbed experiment show`."""
    record = {**resolved.as_record(), "states": {n: s.as_record() for n, s in resolved.states.items()}}
    if as_json:
        return json.dumps(record, indent=1) + "\n"
    return yaml.safe_dump(record, sort_keys=False, allow_unicode=True)
