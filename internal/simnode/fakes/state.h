//go:build ignore

/*
 * Functions that read, reload and search the state file of a fake driver library. The
 * header comment of nvml.c describes the format of the file. Each library is one
 * translation unit that includes this header.
 *
 * Records may be used only while the lock is held, and not across
 * pause_unlocked().
 */
#ifndef STATE_H
#define STATE_H

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_KINDS = 32 };

/* One line of the state file. Keys and values point into the file's text. */
struct record {
    struct record *next; /* of the same name */
    int fields;
    struct {
        const char *key, *value;
    } field[];
};

/* The records of one name. */
struct kind {
    const char *name;
    struct record *first, **end;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything below */
static const char *state_path;
static struct stat state_seen;
static char *state_text;
static char *live_template; /* the file's text, if it describes a GPU as in live.h */
static struct kind kinds[MAX_KINDS];
static int kinds_used;
static int call_log = -1;

static const char *get(const struct record *r, const char *key)
{
    for (int i = 0; r && i < r->fields; i++)
        if (strcmp(r->field[i].key, key) == 0)
            return r->field[i].value;
    return NULL;
}

static int is(const struct record *r, const char *key, const char *value)
{
    const char *v = get(r, key);
    return v && strcmp(v, value) == 0;
}

/* Returns the number with the given key. If the key is absent, it returns the argument otherwise. */
static unsigned long long number(const struct record *r, const char *key, unsigned long long otherwise)
{
    const char *v = get(r, key);
    return v ? strtoull(v, NULL, 10) : otherwise;
}

/* Returns the records with a name, or NULL if there are none. */
static struct kind *kind_of(const char *name)
{
    for (int i = 0; i < kinds_used; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

/* Returns the record with the given name after r, or the first such record if r is NULL. */
static struct record *next(const char *name, const struct record *r)
{
    if (r)
        return r->next;
    struct kind *k = kind_of(name);
    return k ? k->first : NULL;
}

/* Adds the record in a line to the records of its name. */
static void parse_line(char *line)
{
    const char *name = strsep(&line, "\t");
    struct kind *k = kind_of(name);
    if (!k) {
        if (kinds_used == MAX_KINDS)
            abort();
        k = &kinds[kinds_used++];
        *k = (struct kind){.name = name, .end = &k->first};
    }
    size_t most = 1;
    for (const char *c = line; c && *c; c++)
        most += *c == '\t';
    struct record *r = calloc(1, sizeof *r + most * sizeof *r->field);
    for (char *field; (field = strsep(&line, "\t"));) {
        char *value = strchr(field, '=');
        if (!value)
            continue;
        *value++ = '\0';
        r->field[r->fields].key = field;
        r->field[r->fields++].value = value;
    }
    *k->end = r;
    k->end = &r->next;
}

static void parse(char *text)
{
    for (; kinds_used > 0; kinds_used--)
        for (struct record *r = kinds[kinds_used - 1].first, *n; r; r = n) {
            n = r->next;
            free(r);
        }
    free(state_text);
    state_text = text;
    for (char *line; (line = strsep(&text, "\n"));)
        parse_line(line);
}

#include "live.h"

/* Keeps the text of a file that describes a GPU as in live.h. */
static void keep_template(const char *text)
{
    free(live_template);
    live_template = strncmp(text, "live\t", 5) == 0 || strstr(text, "\nlive\t") ? strdup(text) : NULL;
}

static int is_seen(const struct stat *now)
{
    return now->st_ino == state_seen.st_ino && now->st_size == state_seen.st_size && now->st_mtim.tv_sec == state_seen.st_mtim.tv_sec &&
           now->st_mtim.tv_nsec == state_seen.st_mtim.tv_nsec;
}

/* Reads the file again. */
static void reload(void)
{
    struct stat now;
    int fd = open(state_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &now) == 0) {
        char *text = calloc(1, now.st_size + 1);
        if (read(fd, text, now.st_size) == now.st_size) {
            state_seen = now;
            keep_template(text);
            parse(text);
        } else {
            free(text);
        }
    }
    close(fd);
}

/* Reloads the state if the file was replaced. Returns 0 if there is no file. */
static int refresh(void)
{
    struct stat now;
    if (!state_path || stat(state_path, &now) != 0)
        return 0;
    if (!is_seen(&now))
        reload();
    if (live_template)
        parse(live_text(live_template));
    return state_text != NULL;
}

/* Returns the UUID with the given key, or "". */
static const char *uuid_of(const struct record *r, const char *key)
{
    const char *uuid = get(r, key);
    return uuid ? uuid : "";
}

/* Returns the record with a name and a UUID, or NULL. */
static struct record *by_uuid(const char *name, const char *uuid)
{
    for (struct record *r = next(name, NULL); r; r = next(name, r))
        if (is(r, "uuid", uuid))
            return r;
    return NULL;
}

/* Reports whether a fault applies to a call. uuid is "" for a call without a GPU. */
static int concerns(const struct record *fault, const char *name, const char *uuid)
{
    return (is(fault, "gpu", "*") || is(fault, "gpu", uuid)) && (is(fault, "call", "*") || is(fault, "call", name));
}

/* Returns the argument of a fault directive that is active for a call, or NULL. A directive without an argument has the
 * argument "". */
static const char *directive(const char *name, const char *uuid, const char *what)
{
    size_t n = strlen(what);
    for (struct record *f = next("fault", NULL); f; f = next("fault", f)) {
        const char *d = get(f, "do");
        if (d && strncmp(d, what, n) == 0 && (d[n] == '\0' || d[n] == ':') && concerns(f, name, uuid))
            return d[n] ? d + n + 1 : d + n;
    }
    return NULL;
}

/* Releases the lock for some milliseconds. All pointers into the state become invalid. */
static void pause_unlocked(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    pthread_mutex_unlock(&lock);
    nanosleep(&t, NULL);
    pthread_mutex_lock(&lock);
    refresh();
}

/* Waits until the state is not stale; see "until" in nvml.c. */
static void await_fresh(void)
{
    enum { EVERY_MS = 5, MOST_MS = 5000 };
    unsigned long long until = number(next("driver", NULL), "until", ~0ULL);
    for (int waited = 0; waited < MOST_MS && number(next("driver", NULL), "until", ~0ULL) == until; waited += EVERY_MS) {
        struct timespec t;
        clock_gettime(CLOCK_BOOTTIME, &t);
        if ((unsigned long long)t.tv_sec * 1000000000 + t.tv_nsec < until)
            return;
        pause_unlocked(EVERY_MS);
    }
}

/* Returns a copy, because setenv may move the original. The copy is never freed. */
static const char *environment(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? strdup(v) : NULL;
}

/* Opens the call log whose path is in an environment variable. If that fails, as in a sandbox, calls are not logged. */
static void open_log(const char *variable)
{
    const char *path = getenv(variable);
    if (call_log >= 0)
        close(call_log);
    call_log = path && *path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
}

/* Appends a line to the call log. */
static void log_call(const char *name, const char *uuid, int ret, const char *value)
{
    struct timespec t;
    if (call_log < 0)
        return;
    clock_gettime(CLOCK_REALTIME, &t);
    dprintf(call_log, "%lld%09ld\t%s\t%s\t%d\t%s\n", (long long)t.tv_sec, t.tv_nsec, name, uuid, ret, value);
}

#endif
