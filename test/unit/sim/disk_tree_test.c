/* Names on simulated disks, and which of them a loss of power keeps. */
#include "sim/disk_tree.h"

#include <errno.h>
#include <fcntl.h>

#include "net.h"
#include "sim/disk.h"

static int call_disk(struct ci_node *node, enum ci_file_kind kind, const char *path,
                     const char *to_path)
{
    struct ci_disk_open root = ci_disk_root(node);
    return ci_disk_call(&root, &root,
                        &(struct ci_file_call){.kind = kind,
                                               .fd = AT_FDCWD,
                                               .path = path,
                                               .to_fd = AT_FDCWD,
                                               .to_path = to_path,
                                               .mode = 0700},
                        NULL);
}

static struct ci_file *find(struct ci_node *node, const char *path)
{
    struct ci_file *file = NULL;
    return ci_disk_find(node, path, O_RDONLY, &file) < 0 ? NULL : file;
}

static struct ci_file *make(struct ci_node *node, const char *path)
{
    struct ci_file *file = NULL;
    CHECK_EQ(ci_disk_find(node, path, O_RDWR | O_CREAT, &file), 0);
    return file;
}

TEST(names_are_made_changed_and_removed)
{
    struct net net;
    struct ci_file *file;
    net_open(&net, 1);
    CHECK_EQ(call_disk(net.a, CI_FILE_MKDIR, "d/e", NULL), -ENOENT);
    CHECK_EQ(call_disk(net.a, CI_FILE_MKDIR, "d", NULL), 0);
    CHECK_EQ(call_disk(net.a, CI_FILE_MKDIR, "d/", NULL), -EEXIST);
    CHECK_EQ(call_disk(net.a, CI_FILE_MKDIR, "d/e", NULL), 0);
    file = make(net.a, "d/e/x");
    CHECK(find(net.a, "/d/./e/../e//x") == file);
    CHECK_EQ(ci_disk_find(net.a, "d/e/x/y", O_RDONLY, &file), -ENOTDIR);
    CHECK_EQ(ci_disk_find(net.a, "d/e", O_RDWR, &file), -EISDIR);
    CHECK_EQ(ci_disk_find(net.a, "d/e/x", O_RDONLY | O_DIRECTORY, &file), -ENOTDIR);
    CHECK_EQ(call_disk(net.a, CI_FILE_LINK, "d/e/x", "y"), 0);
    CHECK(find(net.a, "y") == find(net.a, "d/e/x"));
    CHECK_EQ(call_disk(net.a, CI_FILE_LINK, "d", "z"), -EPERM);
    CHECK_EQ(call_disk(net.a, CI_FILE_LINK, "y", "d/e/x"), -EEXIST);
    CHECK_EQ(call_disk(net.a, CI_FILE_RENAME, "d", "d/e/f"), -EINVAL); /* into itself */
    CHECK_EQ(call_disk(net.a, CI_FILE_RENAME, "y", "d"), -EISDIR);
    CHECK_EQ(call_disk(net.a, CI_FILE_RENAME, "d", "y"), -ENOTDIR);
    CHECK_EQ(call_disk(net.a, CI_FILE_RENAME, "d/e", "e"), 0);
    CHECK(find(net.a, "e/x") && !find(net.a, "d/e"));
    CHECK(find(net.a, "e/../y") == find(net.a, "y")); /* its parent has changed */
    CHECK_EQ(call_disk(net.a, CI_FILE_UNLINK, "e", NULL), -EISDIR);
    CHECK_EQ(call_disk(net.a, CI_FILE_UNLINK, "e/x", NULL), 0);
    CHECK_EQ(call_disk(net.a, CI_FILE_UNLINK, "e/x", NULL), -ENOENT);
    CHECK(find(net.a, "y") != NULL);
    net.a->faults.disk_full = 1;
    CHECK_EQ(call_disk(net.a, CI_FILE_MKDIR, "full", NULL), -ENOSPC);
    CHECK_EQ(call_disk(net.a, CI_FILE_LINK, "y", "full"), -EDQUOT);
    CHECK_EQ(ci_disk_find(net.a, "full", O_RDWR | O_CREAT, &file), -ENOSPC);
    net.a->faults.disk_error = 1;
    CHECK_EQ(call_disk(net.a, CI_FILE_UNLINK, "y", NULL), -EIO);
    net_close(&net);
}

/* Under each of many seeds, after these steps and a loss of power: how often each file was there.
 */
static void count_survivors(void (*steps)(struct ci_node *node), int *first, int *second, int *both)
{
    *first = *second = *both = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct net net;
        net_open(&net, seed);
        steps(net.a);
        ci_world_kill(&net.world, net.a);
        struct ci_node *next = ci_world_add_node(&net.world, "a");
        bool has_first = find(next, "first") != NULL, has_second = find(next, "second") != NULL;
        *first += has_first;
        *second += has_second;
        *both += has_first && has_second;
        net_close(&net);
    }
}

static void make_two(struct ci_node *node)
{
    CHECK_EQ(ci_disk_sync(node, make(node, "first")), 0);
    CHECK_EQ(ci_disk_sync(node, make(node, "second")), 0);
}

static void sync_between(struct ci_node *node)
{
    make(node, "first");
    CHECK_EQ(ci_disk_sync(node, node->disk->root), 0);
    make(node, "second");
}

static void rename_one(struct ci_node *node)
{
    make(node, "first");
    CHECK_EQ(ci_disk_sync(node, node->disk->root), 0);
    CHECK_EQ(call_disk(node, CI_FILE_RENAME, "first", "second"), 0);
}

static void rename_out_of_a_directory(struct ci_node *node)
{
    CHECK_EQ(call_disk(node, CI_FILE_MKDIR, "d", NULL), 0);
    make(node, "d/first");
    CHECK_EQ(call_disk(node, CI_FILE_RENAME, "d/first", "first"), 0);
    make(node, "second");
    CHECK_EQ(ci_disk_sync(node, find(node, "d")), 0); /* which the rename has changed */
}

TEST(names_last_once_their_directory_is_synced)
{
    int first, second, both;
    count_survivors(make_two, &first, &second, &both); /* syncs of files do not keep names */
    CHECK(first > 10 && first < 30 && second > 2 && second < first && both == second);
    count_survivors(sync_between, &first, &second, &both);
    CHECK(first == 40 && second > 10 && second < 30);
    count_survivors(rename_one, &first, &second, &both); /* one of the names, always */
    CHECK(first + second == 40 && both == 0 && second > 10 && second < 30);
    count_survivors(rename_out_of_a_directory, &first, &second, &both);
    CHECK(first == 40 && second > 10 && second < 30);
}

TEST(a_directory_that_was_lost_takes_its_files_with_it)
{
    int lost = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct net net;
        net_open(&net, seed);
        CHECK_EQ(call_disk(net.a, CI_FILE_MKDIR, "d", NULL), 0);
        CHECK_EQ(ci_disk_sync(net.a, make(net.a, "d/x")), 0);
        CHECK_EQ(ci_disk_sync(net.a, find(net.a, "d")), 0);
        ci_world_kill(&net.world, net.a);
        struct ci_node *next = ci_world_add_node(&net.world, "a");
        CHECK((find(next, "d") != NULL) == (find(next, "d/x") != NULL));
        lost += !find(next, "d");
        if (!find(next, "d"))
            CHECK_EQ(call_disk(next, CI_FILE_MKDIR, "d", NULL), 0);
        CHECK(make(next, "d/y") != NULL);
        net_close(&net);
    }
    CHECK(lost > 10 && lost < 30);
}
