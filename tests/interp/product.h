/* SPDX-License-Identifier: Apache-2.0 */
/* One matrix product, y = x · wᵀ, at every level (docs/ir.md), with small tiles. `T`: the element
 * type. */
#ifndef TESSERA_TESTS_INTERP_PRODUCT_H
#define TESSERA_TESTS_INTERP_PRODUCT_H

#include "tests/interp/harness.h"

#define PRODUCT_HEADER                                                                             \
    "  size M\n  size N\n  size K\n"                                                               \
    "  in %x: tensor<T[M, K]>\n  in %w: tensor<T[N, K]>\n  out %y: tensor<T[M, N]>\n"

static const char product_tensor[] = "func product level tensor {\n" PRODUCT_HEADER "  body {\n"
                                     "    %a = load %x[:, :] : T[M, K]\n"
                                     "    %b = load %w[:, :] : T[N, K]\n"
                                     "    %bt = permute %b perm=[1, 0] : T[K, N]\n"
                                     "    %p = dot %a, %bt : f32[M, N]\n"
                                     "    %r = cast %p : T[M, N]\n"
                                     "    store %y[:, :], %r\n"
                                     "  }\n}\n";

static const char product_launch[] =
    "func product level loop {\n" PRODUCT_HEADER "  body {\n"
    "    launch dims=[M, N] steps=[16, 12] raster_group=2 warps=[4] {\n"
    "      (%m: range, %n: range)\n"
    "      %z = const value=0.0 : f32[%m, %n]\n"
    "      %lo = const value=0 : i64\n"
    "      %hi = size dim=[K] : i64\n"
    "      %acc = for %lo, %hi, %z dims=[K] steps=[8] {\n"
    "        (%k: range, %c: f32[%m, %n])\n"
    "        %a = load %x[%m, %k] : T[%m, %k]\n"
    "        %w0 = load %w[%n, %k] : T[%n, %k]\n"
    "        %w1 = permute %w0 perm=[1, 0] : T[%k, %n]\n"
    "        %d = dot %a, %w1, %c : f32[%m, %n]\n"
    "        yield %d\n"
    "      } : f32[%m, %n]\n"
    "      %r = cast %acc : T[%m, %n]\n"
    "      store %y[%m, %n], %r\n"
    "    }\n  }\n}\n";

static const char product_padded[] =
    "func product level loop padded {\n" PRODUCT_HEADER "  body {\n"
    "    launch dims=[M, N] steps=[16, 12] raster_group=2 warps=[4] {\n"
    "      (%m: range, %n: range)\n"
    "      %z = const value=0.0 : f32[%m, %n]\n"
    "      %lo = const value=0 : i64\n"
    "      %hi = size dim=[K] : i64\n"
    "      %acc = for %lo, %hi, %z dims=[K] steps=[8] {\n"
    "        (%k: range, %c: f32[%m, %n])\n"
    "        %a = load %x[%m, %k] guard=[1, 1] : T[%m, %k]\n"
    "        %w0 = load %w[%n, %k] guard=[1, 1] : T[%n, %k]\n"
    "        %w1 = permute %w0 perm=[1, 0] : T[%k, %n]\n"
    "        %d = dot %a, %w1, %c : f32[%m, %n]\n"
    "        yield %d\n"
    "      } : f32[%m, %n]\n"
    "      %r = cast %acc : T[%m, %n]\n"
    "      store %y[%m, %n], %r guard=[1, 1]\n"
    "    }\n  }\n}\n";

/* Through shared memory, without bulk copies. */
static const char product_shared[] =
    "func product level staged padded {\n" PRODUCT_HEADER "  body {\n"
    "    launch dims=[M, N] steps=[16, 12] warps=[4] {\n"
    "      (%m: range, %n: range)\n"
    "      %sa = shared swizzle=0 : shared<T[1, 16, 8]>\n"
    "      %sb = shared swizzle=0 : shared<T[1, 12, 8]>\n"
    "      %z = const value=0.0 : f32[%m, %n]\n"
    "      %lo = const value=0 : i64\n"
    "      %zero = const value=0 : i32\n"
    "      %hi = size dim=[K] : i64\n"
    "      %acc = for %lo, %hi, %z dims=[K] steps=[8] {\n"
    "        (%k: range, %c: f32[%m, %n])\n"
    "        %a = load %x[%m, %k] guard=[1, 1] : T[%m, %k]\n"
    "        %b = load %w[%n, %k] guard=[1, 1] : T[%n, %k]\n"
    "        barrier ; first\n"
    "        shared_store %sa[%zero, :, :], %a\n"
    "        shared_store %sb[%zero, :, :], %b\n"
    "        barrier ; second\n"
    "        %d = dot %sa[%zero, :, :], %sb[%zero, :, :], %c tb=1 instruction=fma : f32[%m, %n]\n"
    "        yield %d\n"
    "      } : f32[%m, %n]\n"
    "      %r = cast %acc : T[%m, %n]\n"
    "      store %y[%m, %n], %r guard=[1, 1]\n"
    "    }\n  }\n}\n";

/* Its tiles come two steps ahead, by copies past registers. */
static const char product_copies[] =
    "func product level staged padded {\n" PRODUCT_HEADER "  body {\n"
    "    launch dims=[M, N] steps=[16, 12] warps=[4] {\n"
    "      (%m: range, %n: range)\n"
    "      %sa = shared swizzle=0 : shared<T[3, 16, 8]>\n"
    "      %sb = shared swizzle=0 : shared<T[3, 12, 8]>\n"
    "      %z = const value=0.0 : f32[%m, %n]\n"
    "      %lo = const value=0 : i64\n"
    "      %two = const value=16 : i64\n"
    "      %zero = const value=0 : i32\n"
    "      %one = const value=1 : i32\n"
    "      %last = const value=2 : i32\n"
    "      %hi = size dim=[K] : i64\n"
    "      %start = min %two, %hi : i64\n"
    "      %always = cmp %lo, %two pred=lt : bool\n"
    "      %q = for %lo, %start, %zero dims=[K] steps=[8] {\n"
    "        (%k: range, %i: i32)\n"
    "        copy_load %x[%m, %k], %sa[%i, :, :] guard=[1, 1]\n"
    "        copy_load %w[%n, %k], %sb[%i, :, :] guard=[1, 1]\n"
    "        copy_commit ; first\n"
    "        %j = add %i, %one : i32\n"
    "        yield %j\n"
    "      } : i32\n"
    "      %short = cmp %two, %hi pred=gt : bool\n"
    "      if %short {\n"
    "        copy_wait pending=0\n"
    "        yield\n"
    "      } {\n"
    "        yield\n"
    "      }\n"
    "      %acc, %r = for %lo, %hi, %z, %zero dims=[K] steps=[8] {\n"
    "        (%k2: range, %c: f32[%m, %n], %p: i32)\n"
    "        %own = start %k2 : i64\n"
    "        %eight = const value=8 : i64\n"
    "        %next = add %own, %eight : i64\n"
    "        %full = cmp %next, %hi pred=lt : bool\n"
    "        copy_wait %full pending=1\n"
    "        barrier ; each step\n"
    "        %later = add %own, %two : i64\n"
    "        %more = cmp %later, %hi pred=lt : bool\n"
    "        %slot = add %p, %last : i32\n"
    "        if %more {\n"
    "          %past = add %later, %eight : i64\n"
    "          for %later, %past dims=[K] steps=[8] single_trip=1 {\n"
    "            (%k3: range)\n"
    "            copy_load %x[%m, %k3], %sa[%slot, :, :] guard=[1, 1]\n"
    "            copy_load %w[%n, %k3], %sb[%slot, :, :] guard=[1, 1]\n"
    "            yield\n"
    "          }\n"
    "          yield\n"
    "        } {\n"
    "          yield\n"
    "        }\n"
    "        copy_commit ; each step\n"
    "        %d = dot %sa[%p, :, :], %sb[%p, :, :], %c tb=1 instruction=fma : f32[%m, %n]\n"
    "        %p2 = add %p, %one : i32\n"
    "        yield %d, %p2\n"
    "      } : f32[%m, %n], i32\n"
    "      %s = cast %acc : T[%m, %n]\n"
    "      store %y[%m, %n], %s guard=[1, 1]\n"
    "    }\n  }\n}\n";

/* Persistent, with a producer and a consumer role. */
static const char product_roles[] =
    "func product level staged padded {\n" PRODUCT_HEADER "  body {\n"
    "    launch dims=[M, N] steps=[16, 12] raster_group=2 persistent=1 warps=[12] {\n"
    "      %sa = shared swizzle=0 : shared<T[3, 16, 8]>\n"
    "      %sb = shared swizzle=0 : shared<T[3, 12, 8]>\n"
    "      %so = shared swizzle=0 : shared<T[1, 16, 12]>\n"
    "      %full = mbarrier arrivals=2 : mbarrier<3>\n"
    "      %empty = mbarrier arrivals=1 : mbarrier<3>\n"
    "      %p0 = const value=0 : i32\n"
    "      %one = const value=1 : i32\n"
    "      %zero = const value=0 : i32\n"
    "      %lo = const value=0 : i64\n"
    "      %hi = size dim=[K] : i64\n"
    "      roles warps=[4, 8] registers=[40, 232] {\n"
    "        %pe = tile_loop %p0 dims=[M, N] steps=[16, 12] raster_group=2 {\n"
    "          (%m: range, %n: range, %p: i32)\n"
    "          %q = for %lo, %hi, %p dims=[K] steps=[8] {\n"
    "            (%k: range, %i: i32)\n"
    "            wait %empty[%i] previous_phase=1\n"
    "            bulk_load %x[%m, %k], %sa[%i, :, :], %full[%i]\n"
    "            bulk_load %w[%n, %k], %sb[%i, :, :], %full[%i]\n"
    "            %j = add %i, %one : i32\n"
    "            yield %j\n"
    "          } : i32\n"
    "          yield %q\n"
    "        } : i32\n"
    "      } {\n"
    "        %ce = tile_loop %p0 dims=[M, N] steps=[16, 12] raster_group=2 {\n"
    "          (%m2: range, %n2: range, %p2: i32)\n"
    "          %z = const value=0.0 : f32[%m2, %n2]\n"
    "          %acc, %q2 = for %lo, %hi, %z, %p2 dims=[K] steps=[8] {\n"
    "            (%k2: range, %c: f32[%m2, %n2], %i2: i32)\n"
    "            wait %full[%i2]\n"
    "            %d = dot_async %sa[%i2, :, :], %sb[%i2, :, :], %c tb=1 instruction=wgmma"
    " : f32[%m2, %n2]\n"
    "            %e = dot_wait %d pending=0 : f32[%m2, %n2]\n"
    "            arrive %empty[%i2]\n"
    "            %j2 = add %i2, %one : i32\n"
    "            yield %e, %j2\n"
    "          } : f32[%m2, %n2], i32\n"
    "          %r = cast %acc : T[%m2, %n2]\n"
    "          bulk_wait\n"
    "          barrier ; before the tile\n"
    "          shared_store %so[%zero, :, :], %r\n"
    "          fence_async\n"
    "          barrier ; behind the tile\n"
    "          bulk_store %so[%zero, :, :], %y[%m2, %n2]\n"
    "          yield %q2\n"
    "        } : i32\n"
    "        bulk_wait ; the last\n"
    "      }\n    }\n  }\n}\n";

/* `T` for real: every T that is followed by [ . */
static inline char *product_text(const char *text, const char *type)
{
    char *result = malloc(strlen(text) * 2);
    ck_assert_ptr_nonnull(result);
    size_t n = 0;
    for (const char *c = text; *c; c++) {
        if (c[0] == 'T' && c[1] == '[') {
            n += (size_t)sprintf(result + n, "%s", type);
        } else {
            result[n++] = *c;
        }
    }
    result[n] = 0;
    return result;
}

static inline void product_begin(Harness *h, const char *text, const char *type, int64_t m,
                                 int64_t n, int64_t k)
{
    char *real = product_text(text, type);
    harness_begin(h, real);
    free(real);
    harness_size(h, "M", m);
    harness_size(h, "N", n);
    harness_size(h, "K", k);
    harness_fill(h, 0, m * k, 1);
    harness_fill(h, 1, n * k, 2);
    harness_fill(h, 2, m * n, 3);
}

#endif
