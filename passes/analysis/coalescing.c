/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the 32-byte sectors of global memory that one access of a warp touches, by enumerating the
 * addresses of its lanes under the layout of the tile. */
#include "passes/analysis/coalescing.h"

/* Where the access of a lane begins: its sector, and the coordinates along axes whose elements are
 * far apart. */
typedef struct Spot {
    int32_t coords[MAX_RANK];
} Spot;

static bool same_spot(const Spot *a, const Spot *b, int rank)
{
    for (int i = 0; i < rank; i++) {
        if (a->coords[i] != b->coords[i]) {
            return false;
        }
    }
    return true;
}

static int add_spot(Spot *spots, int n, const Spot *spot, int rank)
{
    for (int i = 0; i < n; i++) {
        if (same_spot(&spots[i], spot, rank)) {
            return n;
        }
    }
    spots[n] = *spot;
    return n + 1;
}

Sectors an_sectors(const Layout *layout, const int64_t *pitch, int bits, int vector)
{
    Spot elements[MAX_LANES], sectors[MAX_LANES];
    int n_elements = 0, n_sectors = 0, last = layout->rank - 1;
    for (uint32_t lane = 0; lane < 1u << layout->bits[IN_LANE]; lane++) {
        Spot spot;
        layout_apply(layout, 0, lane, 0, spot.coords);
        n_elements = add_spot(elements, n_elements, &spot, layout->rank);
        for (int i = 0; i < last; i++) {
            spot.coords[last] += (int32_t)(spot.coords[i] * pitch[i]);
            spot.coords[i] = pitch[i] ? 0 : spot.coords[i];
        }
        spot.coords[last] = spot.coords[last] * bits / (8 * SECTOR_BYTES);
        n_sectors = add_spot(sectors, n_sectors, &spot, layout->rank);
    }
    int each = (vector * bits / 8 + SECTOR_BYTES - 1) / SECTOR_BYTES;
    return (Sectors){.touched = n_sectors * (each > 1 ? each : 1),
                     .used = n_elements * vector * bits / 8};
}
