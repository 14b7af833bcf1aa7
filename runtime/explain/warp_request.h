/* SPDX-License-Identifier: Apache-2.0 */
/* One access of one warp, and how many sectors and wavefronts it takes. */
#ifndef TESSERA_RUNTIME_EXPLAIN_WARP_REQUEST_H
#define TESSERA_RUNTIME_EXPLAIN_WARP_REQUEST_H

#include "runtime/explain/explain_report.h"

void request_add(WarpRequest *request, int lane, int64_t at);
/* Sectors of this many bytes that hold what it asks for; `least`: if that lay side by side. */
int request_sectors(const WarpRequest *request, int sector, int *least);
/* Turns that shared memory takes: lanes come in groups that ask for 128 bytes at most, and each
 * group takes a turn for each word of its busiest bank. `least`: a turn a group. Two groups come
 * as one where lanes want the same as their neighbours, or as those two further on (`pairs`): one
 * place of 8 bytes for all lanes takes a turn, one of 16 bytes two. */
int request_wavefronts(const WarpRequest *request, int *least);
/* Lanes of the group that begins at `first`. */
int request_group(const WarpRequest *request, int first);

/* Turns of the first-level cache: its lines lie over the same banks as shared memory does, and it
 * looks up four of them at a time. */
int request_l1_wavefronts(const WarpRequest *request);

/* Packets that the second-level cache serves: of up to PACKET_BYTES of one line, however few of
 * these bytes are asked for. A write of a part of a sector takes the place of two, since the rest
 * of the sector is merged. Fitted to group norms of few channels (docs/lab/memory_bound.md). */
enum { PACKET_BYTES = 64 };
int request_packets(const WarpRequest *request, int sector, bool writes);

/* What a request to global memory takes. */
typedef struct GlobalCounts {
    int sectors, least_sectors, l1_wavefronts, packets;
} GlobalCounts;

/* Counts that were made before, by the pattern of addresses: most requests of a walk are like an
 * earlier one at another place. */
typedef struct RequestMemo RequestMemo;
RequestMemo *request_memo(Arena *arena);
GlobalCounts request_global(RequestMemo *memo, const WarpRequest *request, int sector, bool writes);

#endif
