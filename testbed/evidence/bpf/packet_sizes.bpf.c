// SPDX-License-Identifier: MIT
/*
 * Count the packets that cross each device of chosen network namespaces, by
 * size and by GSO state.
 *
 * Receive is read at netif_receive_skb, after GRO. Transmit is read at
 * net_dev_start_xmit: at net_dev_xmit the packet may already be freed. A driver
 * that answers NETDEV_TX_BUSY gets the same packet again later, so that attempt
 * is taken back at net_dev_xmit; the packet is then still the stack's.
 *
 * CO-RE: the structures name only the members that are read, and libbpf finds
 * where the running kernel has them. Needs no kernel headers.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#define CORE __attribute__((preserve_access_index))
#define NETDEV_TX_BUSY 0x10
#define MAC_HEADER_UNSET 0xffff
/* Inode numbers of namespaces count up from PROC_DYNAMIC_FIRST, 0xf0000000; the first ones' are just below. */
#define FIRST_INODE 0xefffffc0U
#define WATCHED_WORDS 16384
#define SHARED_INFO_HEAD 16

struct ns_common {
	unsigned int inum;
} CORE;

struct net {
	struct ns_common ns;
} CORE;

typedef struct {
	struct net *net;
} CORE possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} CORE;

struct skb_shared_info {
	__u8 nr_frags;
	unsigned short gso_size;
	unsigned short gso_segs;
} CORE;

struct sk_buff {
	struct net_device *dev;
	unsigned int len;
	__u16 mac_header;
	unsigned char *head;
	unsigned char *data;
	unsigned int end;
} CORE;

/* Read by testbed/evidence/bpf_sizes.py. */
struct size_key {
	__u32 netns;
	__u32 ifindex;
	__u32 size; /* link-layer header included */
	__u16 gso_size;
	__u16 gso_segs;
	__u8 nr_frags;
	__u8 tx;
	__u16 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct size_key);
	__type(value, __u64);
} sizes SEC(".maps");

/* One bit for each namespace: a lookup here costs a few instructions, a hash ten times that. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WATCHED_WORDS);
	__type(key, __u32);
	__type(value, __u64);
} watched SEC(".maps");

/* Packets that found `sizes` full. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static __always_inline int is_watched(__u32 netns)
{
	__u32 offset = netns - FIRST_INODE, word = offset / 64;
	__u64 *bits = bpf_map_lookup_elem(&watched, &word);

	return bits && (*bits >> (offset % 64)) & 1;
}

/* nr_frags, gso_size and gso_segs stand close together: one read instead of three. */
static __always_inline void read_shared_info(struct size_key *key, const struct sk_buff *skb)
{
	__u8 head[SHARED_INFO_HEAD] = {};
	__u32 frags = bpf_core_field_offset(struct skb_shared_info, nr_frags);
	__u32 size = bpf_core_field_offset(struct skb_shared_info, gso_size);
	__u32 segs = bpf_core_field_offset(struct skb_shared_info, gso_segs);

	if (frags > sizeof(head) - 1 || size > sizeof(head) - 2 || segs > sizeof(head) - 2)
		return;
	bpf_probe_read_kernel(head, sizeof(head), skb->head + skb->end);
	key->nr_frags = head[frags];
	key->gso_size = *(__u16 *)(head + size);
	/* Without GSO, TCP keeps a 1 there and others a 0: no difference worth a key. */
	key->gso_segs = key->gso_size ? *(__u16 *)(head + segs) : 0;
}

static __always_inline int count(const struct sk_buff *skb, const struct net_device *dev, __u8 tx, __s64 step)
{
	struct size_key key = {};
	__u64 first = step, *packets;
	__u32 zero = 0;

	key.netns = dev->nd_net.net->ns.inum;
	if (!is_watched(key.netns))
		return 0;
	key.ifindex = dev->ifindex;
	key.tx = tx;
	key.size = skb->len;
	if (!tx && skb->mac_header != MAC_HEADER_UNSET)
		key.size += skb->data - skb->head - skb->mac_header;
	read_shared_info(&key, skb);

	packets = bpf_map_lookup_elem(&sizes, &key);
	if (packets) {
		*packets += step;
		return 0;
	}
	/* BPF_ANY: where another CPU adds the key at this moment, ours is still the first value here. */
	if (bpf_map_update_elem(&sizes, &key, &first, BPF_ANY)) {
		packets = bpf_map_lookup_elem(&lost, &zero);
		if (packets)
			*packets += 1;
	}
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(receive, struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;

	return dev ? count(skb, dev, 0, 1) : 0;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(transmit, struct sk_buff *skb, struct net_device *dev)
{
	return count(skb, dev, 1, 1);
}

SEC("tp_btf/net_dev_xmit")
int BPF_PROG(take_back, struct sk_buff *skb, int rc, struct net_device *dev)
{
	return rc == NETDEV_TX_BUSY ? count(skb, dev, 1, -1) : 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
