"""Options allowed in `args` of kperf (client.c of facebookexperimental/kperf). Pure."""

from __future__ import annotations

from testbed.workloads.arguments import Grammar, flag, key, refused, valued

_OUTPUT = "changes the output that is read here"
_STEERING = "changes interrupts and queues of the machine, which the topology sets"
_PINS = "pins workers to other CPUs than the keys 'cpus' and 'pin_offset'"
_RR = "makes it a test of requests, which is not read here (netperf's TCP_RR is)"
_PORTS = "chooses other ports than the key 'port'"

CLIENT = Grammar(
    "kperf's client",
    [
        key("from", "--src"),
        key("address", "--dst"),
        key("port", "--src-svc", "--dst-svc"),
        key("duration", "-t", "--time"),
        key("streams", "-n", "--num-connections"),
        key("congestion", "--tcp-cc"),
        key("length", "--write-size"),
        key("receive_length", "--read-size"),
        key("pin_offset", "--pin-off"),
        key("tx_memory", "--dmabuf-tx-size-mb"),
        key("devmem_tx", "--devmem-tx"),
        key("zerocopy", "--msg-zerocopy"),
        refused(_RR, "-s", "--req-size", "--resp-size", "-T", "--time-stats"),
        refused("sends in both directions, of which one is read here", "--bidirectional", "--bidi-spread"),
        refused(_PINS, "--cpu-src-wrk", "--cpu-dst-wrk", "--cross-pin"),
        refused(_STEERING, "--xps-src-irq-start", "--xps-dst-irq-start", "--src-cpu-start"),
        refused(_STEERING, "--dst-cpu-start", "--src-ifname", "--dst-ifname"),
        refused(_STEERING, "--src-queue-start", "--dst-queue-start"),
        refused(_STEERING, "--src-ack-queue-start", "--dst-ack-queue-start"),
        refused(_PORTS, "--src-local-port-start", "--dst-local-port-start"),
        refused(_PORTS, "--src-listen-port", "--dst-listen-port"),
        refused(_OUTPUT, "--out-csv", "--out-hdr", "-v", "--verbose", "-q", "--quiet"),
        refused("prints something and ends", "-h", "--help", "--usage"),
        valued("--cpu-min"),
        valued("--cpu-max"),
        valued("-M", "--mss"),
        valued("--max-pace"),
        flag("--tls"),
        flag("--tls-rx"),
        flag("--tls-tx"),
        flag("--tls-nopad"),
        valued("--tls-ver"),
        flag("--msg-trunc"),
        flag("--devmem-rx"),
        valued("--devmem-rx-memory"),
        valued("--devmem-tx-memory"),
        valued("--devmem-src-dev"),
        valued("--devmem-dst-dev"),
        valued("--dmabuf-rx-size-mb"),
        valued("--num-rx-queues"),
        valued("--validate"),
        flag("--iou-src"),
        flag("--iou-dst"),
        flag("--zerocopy-rx"),
        valued("--iou-rx-size-mb"),
    ],
)
