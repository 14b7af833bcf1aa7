/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between two devices on mock drivers: peer access is enabled before the first copy, so
 * that no copy goes through host memory. */
#include "tests/device/drivers.h"

#include <string.h>

typedef struct Pair {
    const DeviceOps *ops;
    const void *driver;
    Device *devices[2];
    char memory[2][8];
    Counting counting;
} Pair;

static bool open_nth(Pair *pair, int nth)
{
    DeviceError error;
    Allocator allocator = {counting_alloc, counting_release, &pair->counting};
    pair->devices[nth] = device_open(pair->ops, allocator, nth, pair->driver, &error);
    return pair->devices[nth] != NULL;
}

static void close_nth(Pair *pair, int nth)
{
    device_close(pair->devices[nth]);
    pair->devices[nth] = NULL;
}

static bool begin(Pair *pair, const DeviceOps *ops, const void *driver)
{
    *pair = (Pair){.ops = ops, .driver = driver, .memory = {"to 0", "to 1"}};
    return open_nth(pair, 0) && open_nth(pair, 1);
}

static void end(Pair *pair)
{
    close_nth(pair, 0);
    close_nth(pair, 1);
    check_given_back(&pair->counting);
}

static bool copy_to(Pair *pair, int to, DeviceError *error)
{
    Device *device = pair->devices[to];
    mock.opened = to; /* HIP: it is to be current */
    return device->ops->streams->copy_peer(device, pair->memory[to], pair->devices[!to],
                                           pair->memory[!to], 5, NULL, error);
}

static void expect_copies(Pair *pair, int near, int far)
{
    DeviceError error;
    mock.near = mock.far = 0;
    for (int i = 0; i < 4; i++) {
        pair->memory[!(i % 2)][0] = (char)('a' + i);
        ck_assert_msg(copy_to(pair, i % 2, &error), "%s", error.text);
        ck_assert_int_eq(pair->memory[i % 2][0], 'a' + i);
    }
    ck_assert_int_eq(mock.near, near);
    ck_assert_int_eq(mock.far, far);
}

static void check_access(const DeviceOps *ops, const void *driver)
{
    Pair pair;
    mock_reset(0);
    ck_assert(begin(&pair, ops, driver));
    ck_assert(mock.reaches[0][1] == 0 && mock.reaches[1][0] == 0); /* not before a copy */
    expect_copies(&pair, 4, 0);
    ck_assert(mock.reaches[0][1] == 1 && mock.reaches[1][0] == 1); /* and once, for all of them */
    ck_assert(mock.device == MOCK_CALLERS && mock.pushed == 0);
    /* A device that is opened anew has a context of which nothing is known. */
    for (int i = 0; i < 2; i++) {
        close_nth(&pair, i);
        ck_assert(open_nth(&pair, i));
        expect_copies(&pair, 4, 0);
    }
    end(&pair);
    /* Where another library has enabled it before, its next question for an error has none. */
    mock_reset(0);
    ck_assert(begin(&pair, ops, driver));
    mock.reaches[0][1] = mock.reaches[1][0] = 1;
    expect_copies(&pair, 4, 0);
    ck_assert_uint_eq(mock.untaken, 0);
    end(&pair);
}

START_TEST(access_is_enabled)
{
    check_access(&device_cuda, &mock_cuda);
    check_access(&device_hip, &mock_hip);
}
END_TEST

static void check_without(const DeviceOps *ops, const void *driver, bool apart)
{
    Pair pair;
    mock_reset(0);
    mock.apart = apart;
    ck_assert(begin(&pair, ops, driver));
    expect_copies(&pair, 0, 4);
    ck_assert(mock.reaches[0][1] == 0 && mock.reaches[1][0] == 0);
    end(&pair);
}

/* Devices that cannot reach each other, and drivers that do not know how. */
START_TEST(copies_work_without_access)
{
    CudaDriver cuda = mock_cuda;
    HipDriver hip = mock_hip;
    check_without(&device_cuda, &mock_cuda, true);
    check_without(&device_hip, &mock_hip, true);
    cuda.peer_enable = NULL;
    hip.peer_possible = NULL;
    check_without(&device_cuda, &cuda, false);
    check_without(&device_hip, &hip, false);
}
END_TEST

/* The first copy may be one that a graph keeps: mapping memory is no part of that. */
static void check_captured(const DeviceOps *ops, const void *driver)
{
    Pair pair;
    DeviceError error;
    DeviceGraph graph;
    void *stream;
    mock_reset(0);
    ck_assert(begin(&pair, ops, driver));
    Device *device = pair.devices[1];
    ck_assert(ops->streams->open(device, &stream, &error));
    ck_assert(ops->streams->capture(device, stream, &error));
    ck_assert(copy_to(&pair, 1, &error));
    ck_assert_int_eq(mock.near, 1);
    ck_assert_uint_eq(mock.capture, 0); /* the thread's mode is as it was */
    ck_assert(ops->streams->captured(device, stream, &graph, &error));
    ops->streams->drop(device, graph);
    ops->streams->close(device, stream);
    end(&pair);
}

START_TEST(access_is_enabled_during_a_capture)
{
    check_captured(&device_cuda, &mock_cuda);
    check_captured(&device_hip, &mock_hip);
}
END_TEST

/* Each call of the driver fails, alone and with all after it: the copy is made, or says why not. */
static void fail_each(const DeviceOps *ops, const void *driver)
{
    Pair pair;
    DeviceError error;
    mock_reset(0);
    ck_assert(begin(&pair, ops, driver));
    int before = mock.calls;
    ck_assert(copy_to(&pair, 1, &error));
    int calls = mock.calls - before;
    end(&pair);
    ck_assert_int_gt(calls, 6);
    for (int i = 0; i < 2 * calls; i++) {
        mock_reset(0);
        ck_assert(begin(&pair, ops, driver));
        mock.fail_at = mock.calls + 1 + i / 2;
        mock.fail_on = i % 2;
        bool ok = copy_to(&pair, 1, &error);
        ck_assert_msg(ok ? pair.memory[1][3] == '0' : strstr(error.text, "MOCK_ERROR") != NULL,
                      "%s: %s", mock.last, error.text);
        ck_assert_msg(!ok || strcmp(mock.last, "copy_peer") != 0, "nobody was told");
        ck_assert_msg(mock.pushed == 0, "%s", mock.last);
        mock.fail_at = 0;
        mock.fail_on = false;
        mock_be_elsewhere();
        mock.device = mock.opened;
        end(&pair);
    }
}

START_TEST(failures)
{
    fail_each(&device_cuda, &mock_cuda);
    fail_each(&device_hip, &mock_hip);
}
END_TEST

/* Two handles of one device are no two devices: nothing is enabled. */
START_TEST(one_device_twice)
{
    Pair pair = {.ops = &device_cuda, .driver = &mock_cuda, .memory = {"to 0", "to 1"}};
    Allocator allocator = {counting_alloc, counting_release, &pair.counting};
    DeviceError error;
    mock_reset(0);
    for (int i = 0; i < 2; i++) {
        pair.devices[i] = device_open(pair.ops, allocator, MOCK_OPENED, pair.driver, &error);
    }
    expect_copies(&pair, 0, 0);
    ck_assert_int_eq(mock.reaches[MOCK_OPENED][MOCK_OPENED], 0);
    end(&pair);
}
END_TEST

UNIT_TESTS(device_peers)
{
    TCase *tests = tcase_create("peers");
    tcase_add_test(tests, access_is_enabled);
    tcase_add_test(tests, copies_work_without_access);
    tcase_add_test(tests, access_is_enabled_during_a_capture);
    tcase_add_test(tests, failures);
    tcase_add_test(tests, one_device_twice);
    return tests;
}
