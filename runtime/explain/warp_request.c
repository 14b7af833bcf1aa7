/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the sectors of global memory and the wavefronts of shared memory that one access of one
 * warp needs, from the addresses of its lanes. */
#include "runtime/explain/warp_request.h"

#include <stddef.h>
#include <string.h>
#include <xxhash.h>

enum { MAX_PIECES = MAX_LANES * 2, MAX_WORDS = 64 };

void request_add(WarpRequest *request, int lane, int64_t at)
{
    request->active |= (uint64_t)1 << lane;
    request->at[lane] = at;
}

static bool is_active(const WarpRequest *request, int lane)
{
    return request->active >> lane & 1;
}

/* Adds an item to a set of n items; returns how many it then has. Lanes mostly ask for ascending
 * addresses, so an item that is greater than all others needs no search. */
static int set_add(int64_t *set, int n, int64_t item, int64_t *greatest)
{
    bool ascends = n == 0 || item > *greatest;
    for (int i = n; !ascends && i-- > 0;) {
        if (set[i] == item) {
            return n;
        }
    }
    *greatest = ascends ? item : *greatest;
    set[n] = item;
    return n + 1;
}

int request_sectors(const WarpRequest *request, int sector, int *least)
{
    int64_t sectors[MAX_PIECES], last_sector = 0, places[MAX_LANES], last_place = 0;
    int n = 0, n_places = 0;
    for (int lane = 0; lane < request->lanes; lane++) {
        if (is_active(request, lane)) {
            int64_t at = request->at[lane];
            n = set_add(sectors, n, at / sector, &last_sector);
            n = set_add(sectors, n, (at + request->bytes - 1) / sector, &last_sector);
            n_places = set_add(places, n_places, at, &last_place);
        }
    }
    *least = (n_places * request->bytes + sector - 1) / sector;
    return n;
}

/* Memory from a multiple of PACKET_BYTES on, and which of its bytes are asked for, a bit each. */
typedef struct Packet {
    int64_t number;
    uint64_t bytes;
} Packet;

static void packet_add(Packet *packets, int *n, int64_t byte)
{
    int64_t number = byte / PACKET_BYTES;
    int i = *n - 1;
    while (i >= 0 && packets[i].number != number) {
        i--;
    }
    if (i < 0) {
        i = (*n)++;
        packets[i] = (Packet){number, 0};
    }
    packets[i].bytes |= (uint64_t)1 << byte % PACKET_BYTES;
}

/* True if a sector of the packet is asked for in part. */
static bool is_partial(const Packet *packet, int sector)
{
    uint64_t whole = sector < PACKET_BYTES ? ((uint64_t)1 << sector) - 1 : ~(uint64_t)0;
    for (int first = 0; first < PACKET_BYTES; first += sector) {
        uint64_t own = packet->bytes >> first & whole;
        if (own != 0 && own != whole) {
            return true;
        }
    }
    return false;
}

int request_packets(const WarpRequest *request, int sector, bool writes)
{
    Packet packets[MAX_PIECES];
    int n = 0;
    for (int lane = 0; lane < request->lanes; lane++) {
        for (int byte = 0; is_active(request, lane) && byte < request->bytes; byte++) {
            packet_add(packets, &n, request->at[lane] + byte);
        }
    }
    int packed = n;
    for (int i = 0; i < n && writes; i++) {
        packed += is_partial(&packets[i], sector);
    }
    return packed;
}

/* Lanes that together ask for one row across all banks. */
static int plain_group(const WarpRequest *request)
{
    int group = request->bytes <= SHARED_WORD_BYTES
                    ? request->banks
                    : request->banks * SHARED_WORD_BYTES / request->bytes;
    return group < request->lanes ? group : request->lanes;
}

/* Each lane's neighbour at that distance wants the same place, or nothing. */
static bool neighbours_agree(const WarpRequest *request, int first, int n, int distance)
{
    for (int lane = first; lane < first + n; lane++) {
        int other = lane ^ distance;
        if (is_active(request, lane) && is_active(request, other) &&
            request->at[lane] != request->at[other]) {
            return false;
        }
    }
    return true;
}

static int group_turns(const WarpRequest *request, int first, int n)
{
    int64_t words[MAX_SHARED_BANKS][MAX_WORDS], greatest[MAX_SHARED_BANKS];
    int counts[MAX_SHARED_BANKS] = {0}, most = 0;
    for (int lane = first; lane < first + n; lane++) {
        for (int byte = 0; is_active(request, lane) && byte < request->bytes;
             byte += SHARED_WORD_BYTES) {
            int64_t word = (request->at[lane] + byte) / SHARED_WORD_BYTES;
            int bank = (int)((uint64_t)word % (unsigned)request->banks);
            counts[bank] = set_add(words[bank], counts[bank], word, &greatest[bank]);
            most = counts[bank] > most ? counts[bank] : most;
        }
    }
    return most;
}

int request_group(const WarpRequest *request, int first)
{
    int group = plain_group(request), both = 2 * group;
    bool pairs =
        request->pairs && request->bytes > SHARED_WORD_BYTES && first % both == 0 &&
        first + both <= request->lanes &&
        (neighbours_agree(request, first, both, 1) || neighbours_agree(request, first, both, 2));
    int apart =
        pairs ? group_turns(request, first, group) + group_turns(request, first + group, group) : 0;
    return pairs && group_turns(request, first, both) < apart ? both : group;
}

int request_wavefronts(const WarpRequest *request, int *least)
{
    int turns = 0, group;
    *least = 0;
    for (int first = 0; first < request->lanes; first += group) {
        group = request_group(request, first);
        int taken = group_turns(request, first, group);
        turns += taken;
        *least += taken > 0;
    }
    return turns;
}

int request_l1_wavefronts(const WarpRequest *request)
{
    enum { LINE_BYTES = 128, LOOKUPS = 4 };
    int least, lines = request_sectors(request, LINE_BYTES, &least);
    int lookups = (lines + LOOKUPS - 1) / LOOKUPS, turns = request_wavefronts(request, &least);
    return turns > lookups ? turns : lookups;
}

/* ---- requests like an earlier one ---- */

enum {
    PATTERNS = 1 << 12,
    PATTERN_ALIGN = 4096 /* bytes; a multiple of each sector, and of each row of banks */
};

struct RequestMemo {
    struct {
        uint64_t hash; /* 0: none */
        GlobalCounts counts;
    } items[PATTERNS];
};

/* What the counts depend on. */
typedef struct Pattern {
    uint64_t active;
    int lanes, banks, bytes, sector;
    bool writes;
    int64_t at[MAX_LANES]; /* from a multiple of PATTERN_ALIGN */
} Pattern;

RequestMemo *request_memo(Arena *arena)
{
    return ARENA_NEW(arena, RequestMemo);
}

GlobalCounts request_global(RequestMemo *memo, const WarpRequest *request, int sector, bool writes)
{
    Pattern pattern;
    memset(&pattern, 0, sizeof pattern); /* it is hashed, with what lies between its members */
    pattern.active = request->active;
    pattern.lanes = request->lanes;
    pattern.banks = request->banks;
    pattern.bytes = request->bytes;
    pattern.sector = sector;
    pattern.writes = writes;
    int64_t base = request->at[__builtin_ctzll(request->active)] & ~(int64_t)(PATTERN_ALIGN - 1);
    for (int lane = 0; lane < request->lanes; lane++) {
        pattern.at[lane] = is_active(request, lane) ? request->at[lane] - base : 0;
    }
    size_t size = offsetof(Pattern, at) + sizeof *pattern.at * (size_t)request->lanes;
    uint64_t hash = XXH3_64bits(&pattern, size) | 1;
    GlobalCounts *counts = &memo->items[hash / 2 % PATTERNS].counts;
    if (memo->items[hash / 2 % PATTERNS].hash != hash) {
        memo->items[hash / 2 % PATTERNS].hash = hash;
        counts->sectors = request_sectors(request, sector, &counts->least_sectors);
        counts->l1_wavefronts = request_l1_wavefronts(request);
        counts->packets = request_packets(request, sector, writes);
    }
    return *counts;
}
