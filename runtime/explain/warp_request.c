/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the sectors of global memory and the wavefronts of shared memory that one access of one
 * warp needs, from the addresses of its lanes. */
#include "runtime/explain/warp_request.h"

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

/* Adds to a set; how many it then has. */
static int note(int64_t *set, int n, int64_t item)
{
    for (int i = n; i-- > 0;) {
        if (set[i] == item) {
            return n;
        }
    }
    set[n] = item;
    return n + 1;
}

int request_sectors(const WarpRequest *request, int sector, int *least)
{
    int64_t sectors[MAX_PIECES], places[MAX_LANES];
    int n = 0, n_places = 0;
    for (int lane = 0; lane < request->lanes; lane++) {
        if (is_active(request, lane)) {
            int64_t at = request->at[lane];
            n = note(sectors, n, at / sector);
            n = note(sectors, n, (at + request->bytes - 1) / sector);
            n_places = note(places, n_places, at);
        }
    }
    *least = (n_places * request->bytes + sector - 1) / sector;
    return n;
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
    int64_t words[MAX_SHARED_BANKS][MAX_WORDS];
    int counts[MAX_SHARED_BANKS] = {0}, most = 0;
    for (int lane = first; lane < first + n; lane++) {
        for (int byte = 0; is_active(request, lane) && byte < request->bytes;
             byte += SHARED_WORD_BYTES) {
            int64_t word = (request->at[lane] + byte) / SHARED_WORD_BYTES;
            int bank = (int)((uint64_t)word % (unsigned)request->banks);
            counts[bank] = note(words[bank], counts[bank], word);
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
