"""Options allowed in `args` and `server_args` of iperf3, up to 3.20 (src/iperf_api.c). Pure."""

from __future__ import annotations

from testbed.workloads.arguments import Grammar, Option, address, flag, key, refused, valued

_OUTPUT = "changes the output, which is the JSON that is read here"
_LOGIN = "is for logins, which read keys from files"
_WINDOW = "would end the test by something else than `duration`"

_BOTH: list[Option] = [
    key("address", "-c", "--client"),
    refused("is said by the node that `to` names", "-s", "--server"),
    key("port", "-p", "--port"),
    key("interval", "-i", "--interval"),
    key("family", "-4", "--version4", "-6", "--version6"),
    key("cpus", "-A", "--affinity"),
    refused("serves one test: it is always given", "-1", "--one-off"),
    refused("leaves the lab", "-D", "--daemon"),
    refused("writes a file", "-I", "--pidfile"),
    refused("writes a file", "--logfile"),
    refused("writes what arrives into a file, or sends one", "-F", "--file"),
    refused(_OUTPUT, "-J", "--json", "--json-stream", "--json-stream-full-output", "-V", "--verbose"),
    refused(_OUTPUT, "-f", "--format", "--forceflush", "--timestamps", "-d", "--debug"),
    refused("prints something and ends", "-h", "--help", "-v", "--version"),
    refused(_LOGIN, "--rsa-private-key-path", "--authorized-users-path", "--time-skew-threshold"),
    refused(_LOGIN, "--rsa-public-key-path", "--username", "--use-pkcs1-padding"),
    refused("speaks SCTP, of which nothing is read here", "--sctp", "-X", "--xbind", "--nstreams"),
    valued("-B", "--bind", value=address),
    valued("--rcv-timeout"),
    valued("--snd-timeout"),
    valued("--cntl-ka"),
    flag("-m", "--mptcp"),
]

CLIENT = Grammar(
    "iperf3's client",
    [
        *_BOTH,
        key("client_port", "--cport"),
        key("duration", "-t", "--time"),
        key("omit", "-O", "--omit"),
        key("length", "-l", "--length"),
        key("streams", "-P", "--parallel"),
        key("reverse", "-R", "--reverse"),
        key("bidir", "--bidir"),
        key("udp", "-u", "--udp"),
        key("bitrate", "-b", "--bitrate", "--bandwidth"),
        key("pacing_timer", "--pacing-timer"),
        key("fq_rate", "--fq-rate", "--no-fq-socket-pacing"),
        key("window", "-w", "--window"),
        key("congestion", "-C", "--congestion", "--linux-congestion"),
        key("mss", "-M", "--set-mss"),
        key("nodelay", "-N", "--no-delay"),
        key("zerocopy", "-Z", "--zerocopy"),
        key("bind_device", "--bind-dev"),
        key("tos", "-S", "--tos"),
        refused(_WINDOW, "-n", "--bytes", "-k", "--blockcount"),
        valued("--dscp"),
        valued("-L", "--flowlabel"),
        valued("-T", "--title"),
        valued("--extra-data"),
        valued("--connect-timeout"),
        flag("--get-server-output"),
        flag("--udp-counters-64bit"),
        flag("--repeating-payload"),
        flag("--dont-fragment"),
        flag("--skip-rx-copy"),
        flag("--gsro"),
    ],
)

SERVER = Grammar(
    "iperf3's server",
    [
        *_BOTH,
        valued("--bind-dev"),
        valued("--server-bitrate-limit"),
        refused("would end a server that waits", "--idle-timeout"),
        refused(_WINDOW, "--server-max-duration"),
    ],
)
