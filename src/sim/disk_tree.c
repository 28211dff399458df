#include "sim/disk_tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"

enum { NAME_LEN_MAX = 255 };

struct ci_disk_name {
    struct ci_disk_name *next;
    struct ci_file *directory;
    uint64_t number;
    struct ci_file *seen, *kept; /* NULL: the name does not exist */
    char text[NAME_LEN_MAX + 1];
};

struct ci_disk_change {
    struct ci_list link; /* of the disk's changes, oldest first */
    struct {
        struct ci_disk_name *name;
        struct ci_file *file;
    } sets[2];
    int count;
    bool chosen;
};

static void *allocate(size_t size)
{
    void *memory = calloc(1, size);
    ci_check(memory, "world.h 2");
    return memory;
}

/* ---- files ---- */

struct ci_file *ci_disk_add_file(struct ci_disk *disk, bool is_directory, unsigned mode)
{
    struct ci_file *file = allocate(sizeof *file);
    file->next = disk->files;
    file->number = ++disk->numbers;
    file->is_directory = is_directory;
    file->mode = (mode & 07777) | (is_directory ? S_IFDIR : S_IFREG);
    disk->files = file;
    return file;
}

void ci_disk_free_contents(struct ci_disk_contents *contents)
{
    ci_free(&ci_system_allocator, contents->bytes, contents->capacity);
}

static void free_file(struct ci_file *file)
{
    ci_disk_free_contents(&file->seen);
    ci_disk_free_contents(&file->kept);
    free(file);
}

struct ci_disk *ci_disk_new(void)
{
    struct ci_disk *disk = allocate(sizeof *disk);
    ci_list_init(&disk->changes);
    disk->root = ci_disk_add_file(disk, true, 0755);
    disk->root->parent = disk->root;
    disk->root->links = 1;
    struct ci_disk_place temporary = {disk->root, "tmp", 3};
    ci_disk_name_file(disk, &temporary, ci_disk_add_file(disk, true, 01777));
    ci_disk_keep_names(disk, disk->root);
    return disk;
}

static struct ci_disk_change *change_of(struct ci_list *link)
{
    return ci_container_of(link, struct ci_disk_change, link);
}

static void free_changes(struct ci_disk *disk)
{
    while (!ci_list_empty(&disk->changes))
        free(change_of(ci_list_pop(&disk->changes)));
}

void ci_disk_free(struct ci_disk *disk)
{
    if (!disk)
        return;
    free_changes(disk);
    while (disk->names) {
        struct ci_disk_name *name = disk->names;
        disk->names = name->next;
        free(name);
    }
    while (disk->files) {
        struct ci_file *file = disk->files;
        disk->files = file->next;
        free_file(file);
    }
    free(disk);
}

/* ---- lookups ---- */

static struct ci_disk_name *find(const struct ci_disk *disk, const struct ci_disk_place *place)
{
    struct ci_disk_name *name = disk->names;
    while (name && (name->directory != place->directory ||
                    strncmp(name->text, place->name, place->len) != 0 || name->text[place->len]))
        name = name->next;
    return name;
}

static bool is_dots(const struct ci_disk_place *place)
{
    return place->len == 2 && memcmp(place->name, "..", 2) == 0;
}

struct ci_file *ci_disk_lookup(struct ci_disk *disk, const struct ci_disk_place *place)
{
    if (place->len == 0)
        return place->directory;
    if (is_dots(place))
        return place->directory->parent;
    const struct ci_disk_name *name = find(disk, place);
    return name ? name->seen : NULL;
}

bool ci_disk_find_name(const struct ci_disk *disk, const struct ci_file *file,
                       struct ci_disk_place *ret_place)
{
    const struct ci_disk_name *name = disk->names;
    while (name && name->seen != file)
        name = name->next;
    if (name)
        *ret_place = (struct ci_disk_place){name->directory, name->text, strlen(name->text)};
    return name != NULL;
}

int ci_disk_locate(struct ci_disk *disk, struct ci_file *from, const char *path,
                   struct ci_disk_place *ret_place)
{
    if (!path[0])
        return -ENOENT;
    struct ci_disk_place place = {path[0] == '/' ? disk->root : from, path, 0};
    for (;;) {
        const char *name = place.name + place.len;
        name += strspn(name, "/");
        if (!name[0])
            break;
        size_t len = strcspn(name, "/");
        if (len > NAME_LEN_MAX)
            return -ENAMETOOLONG;
        struct ci_file *found = ci_disk_lookup(disk, &place);
        if (!found)
            return -ENOENT;
        if (!found->is_directory)
            return -ENOTDIR;
        bool stays = len == 1 && name[0] == '.';
        place = (struct ci_disk_place){found, stays ? name + 1 : name, stays ? 0 : len};
    }
    if (!place.directory->parent) /* it was removed */
        return -ENOENT;
    *ret_place = place;
    return 0;
}

static bool is_empty(const struct ci_disk *disk, const struct ci_file *directory)
{
    const struct ci_disk_name *name = disk->names;
    while (name && (name->directory != directory || !name->seen))
        name = name->next;
    return !name;
}

int ci_disk_list(const struct ci_disk *disk, const struct ci_file *directory,
                 struct ci_file_list *list)
{
    int count = 0;
    if (!directory->is_directory)
        return -ENOTDIR;
    for (const struct ci_disk_name *name = disk->names; name && count < CI_FILE_ENTRIES;
         name = name->next) {
        if (name->directory != directory || !name->seen || name->number <= list->last)
            continue;
        struct ci_file_entry *entry = &list->entries[count++];
        entry->inode = name->seen->number;
        entry->type = name->seen->mode & S_IFMT;
        snprintf(entry->name, sizeof entry->name, "%s", name->text);
        list->last = name->number;
    }
    return count;
}

/* ---- changes ---- */

static struct ci_disk_name *find_or_add(struct ci_disk *disk, const struct ci_disk_place *place)
{
    struct ci_disk_name *name = find(disk, place), **end = &disk->names;
    if (name)
        return name;
    name = allocate(sizeof *name);
    name->directory = place->directory;
    name->number = ++disk->numbers;
    memcpy(name->text, place->name, place->len);
    while (*end)
        end = &(*end)->next;
    *end = name;
    return name;
}

static struct ci_disk_change *add_change(struct ci_disk *disk)
{
    struct ci_disk_change *change = allocate(sizeof *change);
    ci_list_push(&disk->changes, &change->link);
    return change;
}

static void unlink_file(struct ci_file *file)
{
    if (file && --file->links == 0 && file->is_directory)
        file->parent = NULL;
}

static void set(struct ci_disk_change *change, struct ci_disk_name *name, struct ci_file *file)
{
    change->sets[change->count].name = name;
    change->sets[change->count++].file = file;
    name->seen = file;
}

int ci_disk_name_file(struct ci_disk *disk, const struct ci_disk_place *place, struct ci_file *file)
{
    if (ci_disk_lookup(disk, place))
        return -EEXIST;
    set(add_change(disk), find_or_add(disk, place), file);
    file->links++;
    if (file->is_directory)
        file->parent = place->directory;
    return 0;
}

int ci_disk_unname(struct ci_disk *disk, const struct ci_disk_place *place, bool directory)
{
    struct ci_file *file = ci_disk_lookup(disk, place);
    if (!file)
        return -ENOENT;
    if (directory && (place->len == 0 || is_dots(place)))
        return -EINVAL;
    if (directory != file->is_directory)
        return directory ? -ENOTDIR : -EISDIR;
    if (directory && !is_empty(disk, file))
        return -ENOTEMPTY;
    set(add_change(disk), find(disk, place), NULL);
    unlink_file(file);
    return 0;
}

static bool is_inside(const struct ci_file *directory, const struct ci_file *outer)
{
    while (directory != outer && directory->parent != directory)
        directory = directory->parent;
    return directory == outer;
}

static int check_rename(const struct ci_disk *disk, const struct ci_file *file,
                        const struct ci_file *over, const struct ci_disk_place *to)
{
    if (file->is_directory && is_inside(to->directory, file))
        return -EINVAL;
    if (!over)
        return 0;
    if (file->is_directory != over->is_directory)
        return over->is_directory ? -EISDIR : -ENOTDIR;
    return over->is_directory && !is_empty(disk, over) ? -ENOTEMPTY : 0;
}

int ci_disk_rename(struct ci_disk *disk, const struct ci_disk_place *from,
                   const struct ci_disk_place *to)
{
    struct ci_file *file = ci_disk_lookup(disk, from), *over = ci_disk_lookup(disk, to);
    if (!from->len || is_dots(from) || !to->len || is_dots(to))
        return -EBUSY;
    if (!file)
        return -ENOENT;
    if (file == over)
        return 0;
    int rc = check_rename(disk, file, over, to);
    if (rc < 0)
        return rc;
    struct ci_disk_change *change = add_change(disk);
    set(change, find(disk, from), NULL);
    set(change, find_or_add(disk, to), file);
    unlink_file(over);
    if (file->is_directory)
        file->parent = to->directory;
    return 0;
}

/* ---- what is kept ---- */

static void mark_directories(const struct ci_disk_change *change)
{
    for (int i = 0; i < change->count; i++)
        change->sets[i].name->directory->marked = true;
}

static bool touches_marked(const struct ci_disk_change *change)
{
    bool touches = false;
    for (int i = 0; i < change->count; i++)
        touches |= change->sets[i].name->directory->marked;
    return touches;
}

static void unmark(struct ci_disk *disk)
{
    for (struct ci_file *file = disk->files; file; file = file->next)
        file->marked = false;
}

/* Keeps the changes that were chosen, and removes them from the list. */
static void keep_chosen(struct ci_disk *disk)
{
    for (struct ci_list *link = disk->changes.next, *next; link != &disk->changes; link = next) {
        struct ci_disk_change *change = change_of(link);
        next = link->next;
        if (!change->chosen)
            continue;
        for (int i = 0; i < change->count; i++)
            change->sets[i].name->kept = change->sets[i].file;
        ci_list_remove(link);
        free(change);
    }
}

void ci_disk_keep_names(struct ci_disk *disk, struct ci_file *directory)
{
    unmark(disk);
    directory->marked = true;
    for (struct ci_list *link = disk->changes.prev; link != &disk->changes; link = link->prev) {
        struct ci_disk_change *change = change_of(link);
        change->chosen = touches_marked(change);
        if (change->chosen)
            mark_directories(change);
    }
    keep_chosen(disk);
    if (ci_list_empty(&disk->changes))
        for (const struct ci_disk_name *name = disk->names; name; name = name->next)
            ci_debug_check(name->seen == name->kept, "disk_tree.h 1");
}

/* Frees the files that no name leads to, and the names that lead to no file. */
static void free_unnamed(struct ci_disk *disk)
{
    bool more = true;
    unmark(disk);
    disk->root->marked = true;
    while (more) {
        more = false;
        for (const struct ci_disk_name *name = disk->names; name; name = name->next)
            if (name->seen && name->directory->marked && !name->seen->marked)
                name->seen->marked = more = true;
    }
    for (struct ci_disk_name **at = &disk->names, *name; (name = *at);) {
        if (name->seen && name->directory->marked) {
            at = &name->next;
            continue;
        }
        *at = name->next;
        free(name);
    }
    for (struct ci_file **at = &disk->files, *file; (file = *at);) {
        if (file->marked) {
            at = &file->next;
            continue;
        }
        *at = file->next;
        free_file(file);
    }
}

void ci_disk_lose_names(struct ci_disk *disk, struct ci_random *random)
{
    unmark(disk);
    ci_list_for_each (link, &disk->changes) {
        struct ci_disk_change *change = change_of(link);
        change->chosen = !touches_marked(change) && ci_random_next(random) & 1;
        if (!change->chosen)
            mark_directories(change);
    }
    keep_chosen(disk);
    free_changes(disk);
    for (struct ci_disk_name *name = disk->names; name; name = name->next)
        name->seen = name->kept;
    free_unnamed(disk);
    for (struct ci_file *file = disk->files; file; file = file->next)
        file->links = file == disk->root;
    for (const struct ci_disk_name *name = disk->names; name; name = name->next) {
        name->seen->links++;
        if (name->seen->is_directory)
            name->seen->parent = name->directory;
    }
}
