"""Who imports pyroute2, and how much of it: in an emulated guest all of it takes 7 s."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.netlink import parts

PACKAGE = Path(__file__).resolve().parents[2] / "testbed"


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_only_the_netlink_folder_imports_pyroute2():
    users = {
        path.relative_to(PACKAGE).parts[0]
        for path in PACKAGE.rglob("*.py")
        if any(name.split(".")[0] == "pyroute2" for name in imports(path))
    }
    assert users == {"netlink"}


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "check veth-pair",
        "plan veth-pair",
        "plan bridge-tap",
        "report results/reference-jumbogram --format csv",
    ],
)
def test_a_command_without_a_lab_does_not_import_pyroute2(command):
    program = (
        "import sys, os\n"
        f"sys.argv = ['testbed', *{command.split()!r}]\n"
        "from testbed.cli import main\n"
        "try: main()\n"
        "except SystemExit as ended: assert not ended.code, ended.code\n"
        "print('\\n', [name for name in sys.modules if name.startswith('pyroute2')])"
    )
    assert run(program).splitlines()[-1].strip() == "[]"


def test_messages_come_without_the_rest_of_pyroute2():
    program = (
        "import sys; from testbed.netlink import channel, ethtool, inet_diag, message, routing\n"
        "print([name for name in ('asyncio', 'sqlite3', 'pyroute2.ndb', 'pyroute2.iproute',"
        " 'pyroute2.netlink.generic', 'pyroute2.netlink.rtnl.tcmsg') if name in sys.modules])"
    )
    assert run(program) == "[]"


@pytest.mark.parametrize(
    "first",
    [
        "import testbed.netlink.message, testbed.netlink.inet_diag",
        "import pyroute2, testbed.netlink.message, testbed.netlink.inet_diag",
    ],
)
def test_the_rest_of_pyroute2_is_there_for_whoever_asks(first):
    program = (
        f"{first}\n"
        "from pyroute2 import IPRoute, DiagSocket, Ethtool, netns, NetlinkError\n"
        "DiagSocket().close()\n"
        "from pyroute2.ethtool import Ethtool as again\n"
        "import pyroute2, testbed.netlink.message as message\n"
        "from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg\n"
        "assert pyroute2.__version__ and pyroute2.netlink\n"
        "assert ifinfmsg is message.ifinfmsg and again is Ethtool\n"
        "print(IPRoute.__name__, netns.__name__)"
    )
    assert run(program) == "IPRoute pyroute2.netns"


def test_an_unknown_name_is_an_attribute_error():
    program = (
        "import testbed.netlink, pyroute2\n"
        "try: pyroute2.nonsense\n"
        "except AttributeError as error: print(error)"
    )
    assert "nonsense" in run(program)


def test_a_package_that_is_not_there_is_named():
    with pytest.raises(ModuleNotFoundError, match="No module named 'not_installed'"):
        parts._put_in_place("not_installed")
