"""Netlink: pyroute2's messages on sockets kept inside namespaces. Only this folder imports pyroute2."""

from testbed.netlink import parts as parts  # before the first import of a part of pyroute2
