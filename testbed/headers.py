"""Header sizes of protocols in bytes, from include/uapi/linux and the RFCs."""

ETHERNET_HEADER = 14
VLAN_TAG = 4
IP_HEADERS = {4: 20, 6: 40}
TCP_HEADER = 20
TIMESTAMPS = 12  # the TCP option, padded
UDP_HEADER = 8
# RFC 2675; which kernels put it into GSO packets is in testbed.kernel_facts (jumbo_option).
JUMBO_OPTION = 8
LARGEST_PAYLOAD = 65535  # of an IP packet without that option
