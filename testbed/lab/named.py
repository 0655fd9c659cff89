"""Labs that outlive the command that made them: named, marked, journalled, and removed only by their mark.

Each namespace `tb-LAB-NODE` carries the mark `testbed:LAB:NODE` as the alias of
its `lo`, set before it gets its name; each device carries it too. What has the
name without the mark belongs to somebody else and is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from testbed.devices.operations import Operation, SetLink
from testbed.errors import InputError, TestbedError
from testbed.lab.changes import Changes, changes
from testbed.lab.journal import Journal, check_name, forget_journal, journalled, locked, read_journal
from testbed.lab.lab import Lab, build
from testbed.netlink import message
from testbed.netlink.channel import Channel
from testbed.nodes.borrowed import Borrowed, give_back
from testbed.nodes.named_namespaces import is_named, name_namespace, names, open_named, remove_name
from testbed.nodes.namespace import Keeper, NamespaceNode
from testbed.nodes.process import end_marked
from testbed.topology.plan import plan
from testbed.topology.spec import Topology
from testbed.yamlfile import did_you_mean

PREFIX = "tb-"
Mark = tuple[str, str]  # lab, node
Done = Literal["built", "rebuilt", "changed", "unchanged"]


@dataclass(frozen=True)
class NamedLab:
    """A lab that exists, whole or not. `status`: up, half-built (a killed `up`), or leftover (no journal)."""

    name: str
    status: Literal["up", "half-built", "leftover"]
    source: str
    nodes: dict[str, str]
    borrowed: Mapping[str, tuple[Borrowed, ...]] = field(default_factory=dict)

    def as_record(self) -> dict[str, Any]:
        """For scripts: node -> the name of its namespace under `nodes`."""
        return {"name": self.name, "status": self.status, "source": self.source, "nodes": self.nodes}


def bring_up(topology: Topology, name: str, source: str, *, rebuild: bool = False) -> Done:
    """Make the lab `name` be `topology`, from nothing or from what is up under that name.

    TestbedError when somebody else is changing it, or when it would have to be
    rebuilt and `rebuild` is not given.
    """
    try:
        check_name(name)
    except InputError as error:
        raise InputError(f"{error}; choose one with --name") from None
    operations = plan(topology)
    with locked(name):
        existing = _find(name)
        if existing is None:
            _build(topology, operations, name, source)
            return "built"
        journal = read_journal(name) if existing.status == "up" else None
        if journal is None or rebuild:
            _remove(existing)
            _build(topology, operations, name, source)
            return "rebuilt"
        return _change(journal, topology, source)


def take_down(name: str) -> None:
    """Remove the lab `name`, half-built ones too. InputError when there is none."""
    with locked(name):
        _remove(_existing(name))


@contextmanager
def attached(name: str, *, change: bool = False) -> Iterator[Lab]:
    """The lab `name`, to read or, with its lock, to change. What changed is in the journal afterwards."""
    if not change:
        with _attached(name) as lab:
            yield lab
        return
    with locked(name), _attached(name) as lab:
        yield lab
        _journal(name).model_copy(update={"topology": lab.topology, "built": lab.built}).write()


def labs() -> list[NamedLab]:
    """Every lab on this machine, by its journal, or by the marks of its namespaces where that is gone."""
    marks = _marks()
    found = (_find(name, marks) for name in sorted({*journalled(), *(lab for lab, _ in marks.values())}))
    return [lab for lab in found if lab is not None]


def _build(topology: Topology, operations: list[Operation], name: str, source: str) -> None:
    """Journal, then make. A failure takes away what was made, a kill leaves the journal at `building`."""
    namespaces = {node: f"{PREFIX}{name}-{node}" for node in topology.nodes}
    journal = Journal(
        name=name,
        status="building",
        source=source,
        pid=os.getpid(),
        namespaces=namespaces,
        stated=topology,
        topology=topology,
    )
    journal.write()
    marks = [SetLink(*end, {"alias": _mark(name, end.node)}) for end in topology.placed()]

    def make(node: str) -> NamespaceNode:
        made = NamespaceNode.make(node, Keeper(name, partial(_record, name, node)))
        made.channel.send([message.set_link("lo", {"alias": _mark(name, node)})])
        name_namespace(made.namespace, namespaces[node])
        return made

    try:
        with build(topology, [*operations, *marks], make) as lab:
            built = lab.baselines()
        _journal(name).model_copy(update={"status": "up", "built": built}).write()
    except BaseException:
        _remove(_existing(name))
        raise


def _record(name: str, node: str, borrowed: Borrowed) -> None:
    """Write down what a device of this machine holds, before it is moved into the node."""
    journal = _journal(name)
    there = {**journal.borrowed, node: (*journal.borrowed.get(node, ()), borrowed)}
    journal.model_copy(update={"borrowed": there}).write()


def _journal(name: str) -> Journal:
    journal = read_journal(name)
    if journal is None:
        raise TestbedError(f"lab '{name}': its journal is gone")
    return journal


def _change(journal: Journal, topology: Topology, source: str) -> Done:
    found: Changes = changes(journal.stated, topology)
    if found.rebuild:
        raise TestbedError(
            f"lab '{journal.name}' is up and would have to be rebuilt: {found.rebuild}; "
            "`testbed up --rebuild` does that"
        )
    with _attached(journal.name, keep=True) as lab:
        mended = lab.mend()
        if found:
            lab.change(found.settings, found.sysctls)
        now = {"stated": topology, "topology": lab.topology, "built": lab.built, "source": source}
    journal.model_copy(update=now).write()
    return "changed" if found or mended else "unchanged"


@contextmanager
def _attached(name: str, *, keep: bool = False) -> Iterator[Lab]:
    """keep: what is started in its nodes belongs to the lab, and goes on when this program ends."""
    existing = _existing(name)
    journal = read_journal(name)
    if existing.status != "up" or journal is None:
        raise TestbedError(
            f"lab '{name}' is {existing.status}: remove it with `testbed down {name}`, or bring it up again"
        )
    nodes: dict[str, NamespaceNode] = {}
    try:
        for node, namespace in journal.namespaces.items():
            descriptor = open_named(namespace)
            if descriptor is None:
                raise TestbedError(f"lab '{name}': its namespace {namespace} is gone; `testbed down {name}`")
            keeper = Keeper(name, partial(_record, name, node)) if keep else None
            nodes[node] = NamespaceNode(node, descriptor, keeper)
        yield Lab(journal.topology, nodes, name, journal.built)
    finally:
        for made in nodes.values():
            made.close()


def _remove(lab: NamedLab) -> None:
    """Take away its names, and with them its namespaces; then there is nothing left to find."""
    end_marked(lab.name)
    _give_back(lab)
    for namespace in lab.nodes.values():
        remove_name(namespace)
    forget_journal(lab.name)


def _give_back(lab: NamedLab) -> None:
    """Give back devices of this machine as they were. The kernel would do it too, but as they are."""
    for node, devices in lab.borrowed.items():
        namespace = open_named(lab.nodes[node]) if node in lab.nodes else None
        if namespace is None:
            continue
        try:
            for borrowed in devices:
                with suppress(TestbedError):  # not moved yet when `up` was killed
                    give_back(borrowed, namespace)
        finally:
            os.close(namespace)


def _existing(name: str) -> NamedLab:
    found = _find(check_name(name))
    if found is None:
        known = [lab.name for lab in labs()]
        there = did_you_mean(name, known) or (f"; there are {', '.join(known)}" if known else "; none is up")
        raise InputError(f"no lab '{name}'{there}")
    return found


def _find(name: str, marks: Mapping[str, Mark] | None = None) -> NamedLab | None:
    """The lab, with those of its namespaces that carry its mark, or that a killed `up` left unmounted."""
    marked = _marks() if marks is None else marks
    nodes = {node: namespace for namespace, (lab, node) in marked.items() if lab == name}
    try:
        journal = read_journal(name)
    except TestbedError:
        return NamedLab(name, "leftover", "", nodes)
    if journal is None:
        return NamedLab(name, "leftover", "", nodes) if nodes else None
    unmounted = {n: namespace for n, namespace in journal.namespaces.items() if not is_named(namespace)}
    status: Literal["up", "half-built"] = "up" if journal.status == "up" else "half-built"
    return NamedLab(name, status, journal.source, unmounted | nodes, journal.borrowed)


def _marks() -> dict[str, Mark]:
    """The marks of all namespaces that have a lab's name and carry one."""
    return {namespace: mark for namespace in names(PREFIX) if (mark := _mark_of(namespace))}


def _mark(lab: str, node: str) -> str:
    return f"testbed:{lab}:{node}"


def _mark_of(namespace: str) -> Mark | None:
    """(lab, node) of a marked namespace; None for one that is somebody else's, or no namespace."""
    descriptor = open_named(namespace)
    if descriptor is None:
        return None
    try:
        channel = Channel(descriptor)
        try:
            links = [message.Link(data) for data in channel.dump(message.list_links())]
        finally:
            channel.close()
    finally:
        os.close(descriptor)
    alias = next((link.get_attr("IFLA_IFALIAS") for link in links if link.name == "lo"), None) or ""
    program, _, rest = alias.partition(":")
    lab, _, node = rest.partition(":")
    return (lab, node) if program == "testbed" and lab and node else None
