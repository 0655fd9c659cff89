"""Netlink: namespaces and sockets inside them, batched requests, features, the kernel's own error text."""
