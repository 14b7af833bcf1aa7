/* SPDX-License-Identifier: Apache-2.0 */
/* Inverses of index maps that are sums of digits of coordinates.
 *
 * A gather reads element u of an array for element p of its result. If every coordinate of p can be
 * recovered from u, the ops behind the gather can be computed over u instead, and their result
 * stored at p:
 *
 *     y[p] = z[(p + 1) % 2, (p + 1) // 2]       y[2 * u1 + u0 - 1] = z[u0, u1]
 *     y[h, i, d] = z[i, h * 64 + d]             y[u1 // 64, u0, u1 % 64] = z[u0, u1] */
#ifndef TESSERA_PASSES_ANALYSIS_INVERSE_MAP_H
#define TESSERA_PASSES_ANALYSIS_INVERSE_MAP_H

#include "ir/ir.h"

enum { MAX_DIGITS = 8 }; /* of one coordinate, and in one index */

/* What an array's coordinate u adds to a coordinate p of the result: low * d, where d is
 * (u - base) // weight % count, or base - u if `reversed`. */
typedef struct InverseTerm {
    int axis; /* of the array */
    bool reversed;
    Dim base, weight, low;
    Dim count; /* NULL: without % count */
} InverseTerm;

/* A coordinate of the result: the sum of its terms, less `add`. */
typedef struct InverseCoord {
    int n;
    InverseTerm terms[MAX_DIGITS];
    Dim add;
} InverseCoord;

typedef struct InverseMap {
    InverseCoord coords[MAX_RANK]; /* one per axis of the result; without terms: the axis has one
                                    * element */
    bool inside[MAX_RANK];         /* one per axis of the array: no index is outside */
} InverseMap;

/* The inverse of the index map of a gather from an array: for each element u of the array, the only
 * p that reads it, if there is one; otherwise a coordinate of p is outside of the result. False if
 * the map has no such inverse. */
bool an_inverse_map(Func *func, const Op *gather, InverseMap *inverse);

/* True if both indices are the same sum of digits of coordinates: equal along equal axes. */
bool an_same_index(Func *func, const Value *a, const Value *b);

/* True if the coordinate is one of the array's less a constant: u - terms[0].base. */
bool an_is_shift(const InverseCoord *coord);

/* A condition on a coordinate: it is less than `at`, or else (not `is_upper`) at least `at`. */
typedef struct IndexBound {
    bool is_upper;
    Dim at;
} IndexBound;

/* Which bound of the coordinate along `axis` the condition, a bool array, is; false: none. */
bool an_index_bound(Func *func, const Value *condition, int axis, IndexBound *bound);

#endif
