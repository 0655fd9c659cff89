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
 * What a packet costs is mostly calls, whose returns mitigations make slow. A
 * frequent kind of packet is counted without any: its fields are loaded directly,
 * and its count stands in an array, whose lookup is inlined.
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
#define SET_BITS 9
#define PLACES 2
#define GOLDEN_RATIO_64 0x61c8864680b583ebULL /* linux/hash.h */

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

/* The kernel's list of functions that its verifier knows. Linux 6.2 and later have this one. */
enum special_kfunc_type {
	KF_bpf_rdonly_cast,
};

extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;

/* Words, to be hashed and compared as such. Read by testbed/evidence/bpf_sizes.py. */
struct size_key {
	__u64 device; /* namespace inode, ifindex << 32 */
	__u64 size;   /* in bytes with the link-layer header, gso_size << 32, gso_segs << 48 */
	__u64 rest;   /* nr_frags, tx << 8 */
};

struct place {
	__u64 packets;
	struct size_key key; /* no matter what while packets is 0 */
};

struct set {
	struct place places[PLACES];
};

/* Where a key is counted if a place of its set is free when it first comes. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1 << SET_BITS);
	__type(key, __u32);
	__type(value, struct set);
} sets SEC(".maps");

/* Where the others are counted. A key can have counts in both maps: their sum is meant. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct size_key);
	__type(value, __u64);
} overflow SEC(".maps");

/* One bit for each namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WATCHED_WORDS);
	__type(key, __u32);
	__type(value, __u64);
} watched SEC(".maps");

/* Packets that found `overflow` full. */
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

static __always_inline void read_shared_info(struct size_key *key, const struct sk_buff *skb)
{
	struct skb_shared_info *info = (void *)(skb->head + skb->end);
	__u64 gso_size, gso_segs;

	if (bpf_core_enum_value_exists(enum special_kfunc_type, KF_bpf_rdonly_cast)) {
		info = bpf_rdonly_cast(info, bpf_core_type_id_kernel(struct skb_shared_info));
		key->rest |= info->nr_frags;
		gso_size = info->gso_size;
		gso_segs = info->gso_segs;
	} else {
		key->rest |= BPF_CORE_READ(info, nr_frags);
		gso_size = BPF_CORE_READ(info, gso_size);
		gso_segs = gso_size ? BPF_CORE_READ(info, gso_segs) : 0;
	}
	/* Without GSO, TCP keeps a 1 in gso_segs and others a 0: no difference worth a key. */
	if (gso_size)
		key->size |= gso_size << 32 | gso_segs << 48;
}

static __noinline int count_in_overflow(__u64 device, __u64 size, __u64 rest, __s64 step)
{
	struct size_key key = { device, size, rest };
	__u64 *packets = bpf_map_lookup_elem(&overflow, &key);
	__u32 zero = 0;

	if (packets) {
		*packets += step;
		return 0;
	}
	/* BPF_ANY: where another CPU adds the key at this moment, ours is still the first value here. */
	if (bpf_map_update_elem(&overflow, &key, &step, BPF_ANY)) {
		packets = bpf_map_lookup_elem(&lost, &zero);
		if (packets)
			*packets += 1;
	}
	return 0;
}

static __always_inline __u32 hash(const struct size_key *key)
{
	__u64 mixed = key->size * GOLDEN_RATIO_64 ^ key->device ^ key->rest;

	return mixed * GOLDEN_RATIO_64 >> (64 - SET_BITS);
}

static __always_inline int equal(const struct size_key *a, const struct size_key *b)
{
	return a->size == b->size && a->device == b->device && a->rest == b->rest;
}

static __always_inline int count(const struct sk_buff *skb, const struct net_device *dev, __u8 tx, __s64 step)
{
	struct size_key key = { .rest = tx << 8 };
	__u32 netns, index;
	struct place *place;
	struct set *set;
	int i;

	netns = dev->nd_net.net->ns.inum;
	if (!is_watched(netns))
		return 0;
	key.device = netns | (__u64)dev->ifindex << 32;
	key.size = skb->len;
	if (!tx && skb->mac_header != MAC_HEADER_UNSET)
		key.size += skb->data - skb->head - skb->mac_header;
	read_shared_info(&key, skb);

	index = hash(&key);
	set = bpf_map_lookup_elem(&sets, &index);
	if (!set)
		return 0;
#pragma unroll
	for (i = 0; i < PLACES; i++) {
		place = &set->places[i];
		if (equal(&place->key, &key)) {
			place->packets += step;
			return 0;
		}
		if (!place->packets) {
			place->key = key;
			barrier(); /* a reader that sees the count sees its key */
			place->packets = step;
			return 0;
		}
	}
	return count_in_overflow(key.device, key.size, key.rest, step);
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
