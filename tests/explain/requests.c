/* SPDX-License-Identifier: Apache-2.0 */
/* Sectors and wavefronts of one warp access. */
#include "runtime/explain/warp_request.h"
#include "tests/unit.h"

/* Lanes at `stride` bytes from one another. */
static WarpRequest lanes_at(int bytes, int64_t first, int64_t stride)
{
    WarpRequest request = {.lanes = 32, .banks = 32, .bytes = bytes};
    for (int lane = 0; lane < 32; lane++) {
        request_add(&request, lane, first + lane * stride);
    }
    return request;
}

static void expect_sectors(WarpRequest request, int sectors, int least)
{
    int found;
    ck_assert_int_eq(request_sectors(&request, 32, &found), sectors);
    ck_assert_int_eq(found, least);
}

static void expect_turns(WarpRequest request, int turns, int least)
{
    int found;
    ck_assert_int_eq(request_wavefronts(&request, &found), turns);
    ck_assert_int_eq(found, least);
}

START_TEST(counts_sectors)
{
    expect_sectors(lanes_at(4, 0, 4), 4, 4);
    expect_sectors(lanes_at(4, 4, 4), 5, 4); /* straddles */
    expect_sectors(lanes_at(16, 0, 16), 16, 16);
    expect_sectors(lanes_at(4, 0, 128), 32, 4); /* a column */
    expect_sectors(lanes_at(4, 0, 0), 1, 1);    /* all the same */
    expect_sectors(lanes_at(2, 0, 2), 2, 2);
}
END_TEST

static void expect_packets(WarpRequest request, int read, int written)
{
    ck_assert_int_eq(request_packets(&request, 32, false), read);
    ck_assert_int_eq(request_packets(&request, 32, true), written);
}

START_TEST(counts_packets)
{
    expect_packets(lanes_at(4, 0, 4), 2, 2);
    expect_packets(lanes_at(2, 0, 2), 1, 1);
    expect_packets(lanes_at(4, 4, 4), 3, 5); /* both ends write a part of a sector */
    expect_packets(lanes_at(8, 0, 256), 32, 64);  /* a quarter of a sector each */
    expect_packets(lanes_at(16, 0, 16), 8, 8);
    expect_packets(lanes_at(4, 0, 0), 1, 2);
}
END_TEST

START_TEST(counts_turns)
{
    expect_turns(lanes_at(4, 0, 4), 1, 1);
    expect_turns(lanes_at(4, 0, 8), 2, 1);
    expect_turns(lanes_at(4, 0, 128), 32, 1); /* one bank */
    expect_turns(lanes_at(4, 0, 132), 1, 1);  /* padded rows */
    expect_turns(lanes_at(4, 0, 0), 1, 1);    /* one word for all */
    expect_turns(lanes_at(16, 0, 16), 4, 4);
    expect_turns(lanes_at(8, 0, 8), 2, 2);
    expect_turns(lanes_at(2, 0, 2), 1, 1); /* two lanes a word */
}
END_TEST

START_TEST(groups_that_agree_come_as_one)
{
    WarpRequest all = lanes_at(16, 64, 0), wide = lanes_at(8, 0, 0),
                two = {.lanes = 32, .banks = 32, .bytes = 16};
    expect_turns(all, 4, 4);
    all.pairs = wide.pairs = two.pairs = true;
    expect_turns(all, 2, 2);
    expect_turns(wide, 1, 1);
    for (int lane = 0; lane < 32; lane++) {
        request_add(&two, lane, (lane / 4 * 2 + lane % 2) * 16); /* as those two further on */
    }
    expect_turns(two, 2, 2);
    for (int lane = 0; lane < 32; lane++) {
        request_add(&two, lane, lane / 2 * 128); /* of one bank, and nothing is gained */
    }
    expect_turns(two, 16, 4);
    WarpRequest apart = lanes_at(16, 0, 16);
    apart.pairs = true;
    expect_turns(apart, 4, 4);
}
END_TEST

START_TEST(lanes_that_are_off_ask_for_nothing)
{
    WarpRequest none = {.lanes = 32, .banks = 32, .bytes = 4};
    expect_sectors(none, 0, 0);
    expect_turns(none, 0, 0);
    WarpRequest one = none;
    request_add(&one, 31, 256);
    expect_sectors(one, 1, 1);
    expect_turns(one, 1, 1);
}
END_TEST

UNIT_TESTS(explain_requests)
{
    TCase *tests = tcase_create("requests");
    tcase_add_test(tests, counts_sectors);
    tcase_add_test(tests, counts_packets);
    tcase_add_test(tests, counts_turns);
    tcase_add_test(tests, groups_that_agree_come_as_one);
    tcase_add_test(tests, lanes_that_are_off_ask_for_nothing);
    return tests;
}
