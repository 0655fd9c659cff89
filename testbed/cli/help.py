"""Formatting of `--help`: groups of commands, metavars and examples."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from typer.core import TyperGroup

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Measure and report": ("run", "report", "compare", "export", "reproduce", "experiment"),
    "Labs that stay up": ("up", "down", "ls", "show", "set", "exec", "shell", "watch", "sizes"),
    "Topology files": ("check", "plan", "graph", "path", "schema"),
    "Kernels and this machine": ("probe", "kernel"),
}

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "run": (
        "testbed run nagle --rounds 3 --duration 2s",
        "testbed run nagle --target 3% --set '*:veth0.mtu=9000' --set workload.length=1M",
        "testbed run mine.yaml --kernel 7.3 --kernel mine --boots 2",
        "testbed run --resume latest",
    ),
    "report": ("testbed report", "testbed report latest --format html", "testbed report RUN --format junit"),
    "compare": ("testbed compare BEFORE AFTER", "testbed compare BEFORE AFTER --states big-tcp --json"),
    "export": ("testbed export latest --output run.tar.gz",),
    "reproduce": ("testbed reproduce run.tar.gz",),
    "up": (
        "testbed up veth-pair",
        "testbed up mine.yaml --name one",
        "ip netns exec tb-one-client ip addr",
    ),
    "down": ("testbed down veth-pair", "testbed down --all"),
    "show": ("testbed show veth-pair", "testbed show veth-pair --json"),
    "set": (
        "testbed set veth-pair client:veth0.mtu=9000",
        "testbed set veth-pair '*:veth0.tso=off' 'client:veth0.qdisc={kind: fq, limit: 1000}'",
    ),
    "exec": ("testbed exec veth-pair client -- ping -c 1 10.1.0.2",),
    "shell": ("testbed shell veth-pair client",),
    "watch": ("testbed watch veth-pair --interval 500ms",),
    "sizes": ("testbed sizes veth-pair --for 10s",),
    "check": ("testbed check mine.yaml",),
    "plan": ("testbed plan veth-pair",),
    "graph": ("testbed graph vxlan", "testbed graph mine.yaml --format mermaid"),
    "path": (
        "testbed path bridge-tap client guest --verify",
        "testbed path vxlan client server --family 4 --set 'client:vxlan0.gso_max_size=128K'",
    ),
    "schema": ("testbed schema topology > topology.schema.json",),
    "probe": ("testbed probe", "testbed probe --json"),
    "experiment show": ("testbed experiment show nagle",),
    "experiment check": ("testbed experiment check mine.yaml",),
    "kernel fetch": ("testbed kernel fetch 7.3", "testbed kernel fetch latest --flavour generic"),
    "kernel build": ("testbed kernel build --tree ~/linux --series my.mbox --name mine",),
    "kernel show": ("testbed kernel show 7.3",),
    "kernel boot": ("testbed kernel boot 7.3 -- uname -r", "testbed kernel boot mine --shell"),
    "kernel rm": ("testbed kernel rm mine",),
}

# What an option or argument wants, by its name, where that is not its name in capitals.
_WANTS = {
    **dict.fromkeys(("assign", "changes"), "NODE:DEVICE.SETTING=VALUE"),
    **dict.fromkeys(("rounds", "cap", "seed", "boots", "jobs", "cores"), "N"),
    **dict.fromkeys(("run", "run_a", "run_b", "resume"), "RUN"),
    **dict.fromkeys(("results",), "FOLDER"),
    **dict.fromkeys(("output",), "FILE"),
    **{"target": "SHARE", "states": "STATE", "stacks": "CONDITION", "declare": "PROPERTY", "form": "FORMAT"},
    **{"family": "4|6", "memory": "MIB", "cpus": "CPU,CPU...", "append": "WORD", "config": "FILE"},
    **{"accelerator": "kvm|tcg", "backend": "qemu|vng", "flavour": "cloud|generic", "command": "COMMAND"},
    "collector": "NAME",
}


class Group(TyperGroup):
    """A group of commands whose help is whole: summaries in full, metavars in words, examples."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        above = "" if self.name in (None, "testbed") else f"{self.name} "
        for name, command in self.commands.items():
            for parameter in command.params:
                _say_what_it_wants(parameter)
            examples = EXAMPLES.get(above + name)
            if examples:
                lines = (f"  {line}" for line in examples)
                command.epilog = "\n".join(["\b", "Examples:", *lines])

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands under the titles of GROUPS, each with its first sentence."""
        names = [name for name in self.list_commands(ctx) if not self.commands[name].hidden]
        grouped = {title: [n for n in wanted if n in names] for title, wanted in GROUPS.items()}
        listed = {name for members in grouped.values() for name in members}
        if self.name not in (None, "testbed"):
            grouped, listed = {"Commands": names}, set(names)
        grouped["Other"] = [name for name in names if name not in listed]
        widest = max(map(len, names), default=0)
        for title, members in grouped.items():
            if members:
                with formatter.section(title):
                    rows = [(f"{name:{widest}}", summary(self.commands[name].help)) for name in members]
                    formatter.write_dl(rows)


def summary(text: str | None) -> str:
    """The first sentence of a help text, without its full stop."""
    first = " ".join((text or "").split("\n\n")[0].split())
    return re.split(r"(?<=[^.])\.(?:\s|$)", first, maxsplit=1)[0]


def _say_what_it_wants(parameter: Any) -> None:
    if parameter.metavar is None and not getattr(parameter, "is_flag", False):
        parameter.metavar = _WANTS.get(parameter.name, parameter.name.upper())
    if parameter.param_type_name == "argument":
        parameter.metavar = parameter.metavar.removesuffix("...")  # Typer adds the dots
        parameter.display_type_rich = lambda ctx: ""  # Typer adds `<str>` to the metavar
