"""The model of netperf's options, and the command lines made from them. Pure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from testbed.unit_fields import Bytes, Port
from testbed.workloads.argument_types import Congestion
from testbed.workloads.arguments import check_arguments
from testbed.workloads.netperf_arguments import CLASSIC_TEST, GLOBAL, TEST
from testbed.workloads.tool import Options
from testbed.yamlfile import mistake

Test = Literal["TCP_STREAM", "TCP_MAERTS", "TCP_SENDFILE", "TCP_RR", "TCP_CRR", "UDP_STREAM", "UDP_RR"]

_COMMON = ("THROUGHPUT", "THROUGHPUT_UNITS", "ELAPSED_TIME")
_STREAM = ("LOCAL_TRANSPORT_RETRANS", "REMOTE_TRANSPORT_RETRANS", "LOCAL_CONG_CONTROL", "REMOTE_CONG_CONTROL")
# Of the sending end and the receiving end, in one order: socket buffers, message, bytes sent and received.
SENDS = ("LSS_SIZE", "RSR_SIZE", "LOCAL_SEND_SIZE", "LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD")
RECEIVES = ("RSS_SIZE", "LSR_SIZE", "REMOTE_SEND_SIZE", "REMOTE_BYTES_SENT", "LOCAL_BYTES_RECVD")
LATENCY = {
    "min": "MIN_LATENCY",
    "mean": "MEAN_LATENCY",
    "p50": "P50_LATENCY",
    "p90": "P90_LATENCY",
    "p99": "P99_LATENCY",
    "max": "MAX_LATENCY",
    "stddev": "STDDEV_LATENCY",
}


class NetperfOptions(Options):
    """One netperf test. What is not given is netperf's default; the args hold its other options."""

    tool: Literal["netperf"] = "netperf"
    test: Test = Field("TCP_STREAM", description="which test (-t)")
    control_port: Port = Field(12865, description="where netserver listens (-p)")
    port: Port = Field(5301, description="the server's data port (-- -P)")
    client_port: Port | None = Field(40001, description="the client's data port (-- -P); null for any")
    length: Annotated[Bytes, Field(ge=1)] | None = Field(None, description="bytes of one send (-- -m)")
    receive_length: Annotated[Bytes, Field(ge=1)] | None = Field(
        None, description="bytes of one receive (-- -M)"
    )
    request: Annotated[Bytes, Field(ge=1)] = Field(1, description="bytes of a request (-- -r), _RR and _CRR")
    response: Annotated[Bytes, Field(ge=1)] = Field(1, description="bytes of a response")
    window: Bytes | None = Field(None, description="bytes of the socket buffers at both ends (-- -s, -S)")
    congestion: Congestion | None = Field(
        "cubic", description="congestion control at both ends (-- -K); TCP only"
    )
    burst: int = Field(
        0, ge=0, le=65535, description="requests under way beside the first (-- -b); TCP_RR and UDP_RR"
    )
    nodelay: bool = Field(False, description="TCP_NODELAY at both ends (-- -D)")
    args: list[str] = Field(default_factory=list, description="further global options")
    test_args: list[str] = Field(default_factory=list, description="further options of the test, after --")

    @model_validator(mode="after")
    def _consistent(self) -> NetperfOptions:
        if self.omit:
            raise mistake("netperf counts from its first byte: omit must be 0", "omit")
        if self.duration != int(self.duration):
            raise mistake(f"netperf takes whole seconds, got {self.duration:g}", "duration")
        if self.classic and (self.nodelay or self.congestion not in (None, "cubic")):
            key = "nodelay" if self.nodelay else "congestion"
            raise mistake("TCP_SENDFILE takes no congestion control and no TCP_NODELAY", key)
        if self.burst and self.test not in ("TCP_RR", "UDP_RR"):
            raise mistake(f"{self.test} sends no requests beside each other", "burst")
        check_arguments(GLOBAL, "args", self.args)
        check_arguments(CLASSIC_TEST if self.classic else TEST, "test_args", self.test_args)
        return self

    @property
    def tcp_congestion(self) -> str | None:
        return self.congestion if self.test.startswith("TCP") and not self.classic else None

    @property
    def classic(self) -> bool:
        """Whether the test is one of netperf's old ones, which print columns and know fewer options."""
        return self.test == "TCP_SENDFILE"

    @property
    def local_port(self) -> int:
        """The client's data port; 0 for any, as _CRR needs: each transaction is a connection of its own."""
        return 0 if self.test == "TCP_CRR" else self.client_port or 0

    @property
    def ping_pong(self) -> bool:
        return self.test.endswith("RR")

    @property
    def sends(self) -> bool:
        """Whether it is the client that sends."""
        return self.test != "TCP_MAERTS"

    @property
    def ports(self) -> frozenset[int]:
        return frozenset(filter(None, {self.control_port, self.port, self.local_port}))


def client_options(options: NetperfOptions, address: str) -> list[str]:
    """The command line of netperf, without the command."""
    whole = ["-H", f"{address},{options.family}", "-p", f"{options.control_port}", "-t", options.test]
    whole += ["-l", f"{int(options.duration)}", "-P", "0", *options.args]
    return [*whole, "--", *_test_options(options), *options.test_args]


def _test_options(options: NetperfOptions) -> list[str]:
    arguments = [f"-{options.family}", "-P", f"{options.local_port},{options.port}"]
    if options.length is not None:
        arguments += ["-m", f"{options.length}"]
    if options.receive_length is not None:
        arguments += ["-M", f"{options.receive_length}"]
    if options.window is not None:
        arguments += ["-s", f"{options.window}", "-S", f"{options.window}"]
    if options.classic:
        return arguments
    if options.ping_pong:
        arguments += ["-r", f"{options.request},{options.response}"]
    if options.burst:
        arguments += ["-b", f"{options.burst}"]
    if options.tcp_congestion:
        arguments += ["-K", f"{options.tcp_congestion},{options.tcp_congestion}"]
    if options.nodelay:
        arguments += ["-D"]
    return [*arguments, "-k", ",".join(keys_of(options))]


def server_options(options: NetperfOptions) -> list[str]:
    """The command line of netserver, without the command: one process, which writes no files."""
    any_address = "::0" if options.family == 6 else "0.0.0.0"
    return ["-D", "-f", "-N", "-p", f"{options.control_port}", "-L", f"{any_address},{options.family}"]


def keys_of(options: NetperfOptions) -> list[str]:
    """The keys to ask a test for; none of a classic one."""
    if options.classic:
        return []
    if options.ping_pong:
        return [*_COMMON, *_STREAM, *LATENCY.values(), "LOCAL_BYTES_SENT", "LOCAL_BYTES_RECVD"]
    return [*_COMMON, *_STREAM, *(SENDS if options.sends else RECEIVES)]
