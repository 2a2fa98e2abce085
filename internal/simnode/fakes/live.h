//go:build ignore

/*
 * This file simulates a GPU with work from real programs. The values of the GPU's records are
 * computed at the time of each call, from the files that the fake libcuda.so.1 (cuda.c) writes. The
 * times are exact even if a busy machine delays the caller.
 *
 * A state file with the following record describes such a GPU. The gpu record of this GPU has only
 * the constant keys.
 *
 *   live     gpu dir             UUID; the directory of the programs' files
 *            floor context busy  mW: always; while a context is open; while a kernel runs
 *            average instant     ms: power and field 186 average over these times
 *            buffer              ms between power samples, if the driver keeps them
 *            buffer_average buffer_delay  ms over which these samples average; ms until a sample is visible
 *            refresh             ms: steps of the energy counters
 *            sample delay ring   ms between samples; ms until a sample is visible; ms that it is kept
 *            late                ms by which the counters lag behind
 *            names               which context a sample names while nothing runs: context (each in turn), last, or none
 *            scope               percent of the GPU's energy in the plain counter
 *            scoped=1            field 191 has the GPU's energy
 *            half=1              samples show half of the busy time
 *            favour=1            samples of work name the open program that was the first to work
 *            clients=1           samples name MPS clients instead of the MPS server
 *
 * A program's file is named after its PID. Its lines, with times in ns since 1970: "context TIME",
 * "mps TIME" (the context of an MPS client), "server TIME" (of the MPS server), "run FROM TO" (a
 * kernel; kernels do not overlap) and "end TIME".
 */
#ifndef LIVE_H
#define LIVE_H

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>

struct stretch {
    long long from, to;
    unsigned int pid;
    char kind; /* the kind of a context: c, m or s */
};

/* A growing list of stretches. */
struct stretches {
    struct stretch *at;
    int n, room;
};

/* The work on the GPU: kernels and contexts, each sorted by their beginning. */
struct work {
    struct stretches runs, contexts;
};

static void add_stretch(struct stretches *s, struct stretch one)
{
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->at = realloc(s->at, s->room * sizeof *s->at);
    }
    s->at[s->n++] = one;
}

static int by_beginning(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* Adds the work of one program. A killed program has no line for its end. */
static void read_program(struct work *w, const char *path, unsigned int pid)
{
    FILE *f = fopen(path, "re");
    struct stretch context = {0, 0, pid, 0};
    long long from, to, last = 0;
    char word[16];
    if (!f)
        return;
    while (fscanf(f, "%15s %lld", word, &from) == 2) {
        if (strcmp(word, "run") == 0 && fscanf(f, "%lld", &to) == 1) {
            add_stretch(&w->runs, (struct stretch){from, to, pid, 'r'});
            last = to;
        } else if (strcmp(word, "end") == 0) {
            context.to = from;
        } else if (!context.kind) {
            context.kind = word[0];
            context.from = from;
        }
    }
    fclose(f);
    if (!context.kind)
        return;
    if (!context.to)
        context.to = kill((pid_t)pid, 0) != 0 && errno == ESRCH ? (last ? last : context.from) : LLONG_MAX;
    add_stretch(&w->contexts, context);
}

static struct work read_work(const char *dir)
{
    struct work w = {{NULL, 0, 0}, {NULL, 0, 0}};
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[PATH_MAX];
        unsigned int pid = (unsigned int)strtoul(e->d_name, NULL, 10);
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (pid)
            read_program(&w, path, pid);
    }
    if (d)
        closedir(d);
    if (w.runs.n)
        qsort(w.runs.at, w.runs.n, sizeof *w.runs.at, by_beginning);
    if (w.contexts.n)
        qsort(w.contexts.at, w.contexts.n, sizeof *w.contexts.at, by_beginning);
    return w;
}

/* Returns how much of a period the stretches cover. Overlapping stretches are counted once. */
static long long covered(const struct stretches *s, long long from, long long to)
{
    long long sum = 0, done = from;
    for (int i = 0; i < s->n; i++) {
        long long a = s->at[i].from > done ? s->at[i].from : done;
        long long b = s->at[i].to < to ? s->at[i].to : to;
        if (b > a) {
            sum += b - a;
            done = b;
        }
    }
    return sum;
}

/* Returns the energy that was used in a period, in mJ. */
static double energy_of(const struct record *live, const struct work *w, long long from, long long to)
{
    return 1e-9 * ((double)number(live, "floor", 0) * (double)(to - from) +
                   (double)number(live, "context", 0) * (double)covered(&w->contexts, from, to) +
                   (double)number(live, "busy", 0) * (double)covered(&w->runs, from, to));
}

/* Returns the PID that is named in the samples of a program's work. For an MPS client, this is the PID of the server. */
static unsigned int sampled_pid(const struct record *live, const struct work *w, unsigned int pid)
{
    const struct stretch *own = NULL, *server = NULL;
    for (int i = 0; i < w->contexts.n; i++) {
        if (w->contexts.at[i].pid == pid)
            own = &w->contexts.at[i];
        if (w->contexts.at[i].kind == 's')
            server = &w->contexts.at[i];
    }
    return own && own->kind == 'm' && server && !is(live, "clients", "1") ? server->pid : pid;
}

/* Returns the PID of the k-th context that is open at a time, or 0. */
static unsigned int open_context(const struct work *w, long long at, unsigned long long k)
{
    unsigned int open[64], n = 0;
    for (int i = 0; i < w->contexts.n && n < 64; i++)
        if (w->contexts.at[i].from <= at && at < w->contexts.at[i].to)
            open[n++] = w->contexts.at[i].pid;
    return n ? open[k % n] : 0;
}

/* Returns the PID of the first program that worked and still has an open context, or 0. */
static unsigned int first_worker(const struct work *w, long long at)
{
    for (int i = 0; i < w->runs.n && w->runs.at[i].from <= at; i++)
        for (int j = 0; j < w->contexts.n; j++)
            if (w->contexts.at[j].pid == w->runs.at[i].pid && at < w->contexts.at[j].to)
                return w->runs.at[i].pid;
    return 0;
}

/* Returns the PID that is named in sample k, or 0. */
static unsigned int named(const struct record *live, const struct work *w, long long at, long long k, int busy)
{
    const struct stretch *last = NULL;
    for (int i = 0; i < w->runs.n && w->runs.at[i].from <= at; i++)
        last = &w->runs.at[i];
    if (is(live, "favour", "1") && busy)
        return first_worker(w, at);
    if (busy || is(live, "names", "last"))
        return last ? sampled_pid(live, w, last->pid) : 0;
    return is(live, "names", "context") ? open_context(w, at, (unsigned long long)k) : 0;
}

static void print_samples(FILE *out, const struct record *live, const struct work *w, long long now)
{
    long long ms = 1000000, period = (long long)number(live, "sample", 139) * ms;
    long long visible = now - (long long)number(live, "delay", 0) * ms, kept = now - (long long)number(live, "ring", 0) * ms;
    for (long long k = kept / period + 1; k <= visible / period; k++) {
        long long at = k * period;
        int busy = (int)(100 * covered(&w->runs, at - period, at) / period);
        unsigned int pid = named(live, w, at, k, busy);
        if (is(live, "half", "1"))
            busy /= 2;
        if (pid)
            fprintf(out, "sample\tgpu=%s\ttime=%lld\tpid=%u\tsm=%d\tmem=%d\n", get(live, "gpu"), at / 1000, pid, busy, busy / 3);
    }
}

/* Prints the last 120 power samples. */
static void print_buffer(FILE *out, const struct record *live, const struct work *w, long long now)
{
    long long ms = 1000000, period = (long long)number(live, "buffer", 20) * ms, average = (long long)number(live, "buffer_average", 20) * ms;
    long long last = (now - (long long)number(live, "buffer_delay", 0) * ms) / period;
    for (long long k = last - 119; k <= last; k++)
        fprintf(out, "power\tgpu=%s\ttime=%lld\tvalue=%.0f\n", get(live, "gpu"), k * period / 1000,
                1e9 * energy_of(live, w, k * period - average, k * period) / (double)average);
}

static void print_processes(FILE *out, const struct record *live, const struct work *w, long long now)
{
    for (int i = 0; i < w->contexts.n; i++)
        if (w->contexts.at[i].from <= now && now < w->contexts.at[i].to)
            fprintf(out, "process\tgpu=%s\tpid=%u\tkind=%s\tmemory=%d\n", get(live, "gpu"), w->contexts.at[i].pid,
                    w->contexts.at[i].kind == 'm' ? "mps" : "compute", 512 << 20);
}

/* Prints the changing keys of the GPU's record. */
static void print_values(FILE *out, const struct record *live, const struct work *w, long long now)
{
    long long ms = 1000000, average = (long long)number(live, "average", 1) * ms;
    long long instant = (long long)number(live, "instant", 1) * ms;
    long long step = (long long)number(live, "refresh", 1) * ms, refreshed = (now - (long long)number(live, "late", 0) * ms) / step * step;
    const long long loaded = 1700000000LL * 1000 * ms; /* when the driver was loaded, in 2023 */
    double mj = energy_of(live, w, loaded, refreshed);
    if (get(live, "buffer"))
        fprintf(out, "\tbuffers=1");
    fprintf(out, "\tenergy=%.0f", mj * (double)number(live, "scope", 100) / 100);
    if (is(live, "scoped", "1"))
        fprintf(out, "\tenergy_gpu=%.0f", mj);
    fprintf(out, "\tpower=%.0f", 1e9 * energy_of(live, w, now - average, now) / (double)average);
    fprintf(out, "\tpower_instant=%.0f", 1e9 * energy_of(live, w, now - instant, now) / (double)instant);
    fprintf(out, "\tutilization=%lld\n", 100 * covered(&w->runs, now - 200 * ms, now) / (200 * ms));
}

/* Returns the text of a state with the values at this time. */
static char *live_text(const char *text)
{
    struct record *live = next("live", NULL);
    struct work w = read_work(get(live, "dir"));
    struct timespec t;
    char *result = NULL, *copy = strdup(text), *rest = copy;
    size_t size = 0;
    clock_gettime(CLOCK_REALTIME, &t);
    long long now = (long long)t.tv_sec * 1000000000 + t.tv_nsec;
    FILE *out = open_memstream(&result, &size);
    for (char *line; (line = strsep(&rest, "\n"));) {
        fputs(line, out);
        if (strncmp(line, "gpu\t", 4) == 0)
            print_values(out, live, &w, now);
        else
            fputc('\n', out);
    }
    print_processes(out, live, &w, now);
    print_samples(out, live, &w, now);
    if (get(live, "buffer"))
        print_buffer(out, live, &w, now);
    fclose(out);
    free(copy);
    free(w.runs.at);
    free(w.contexts.at);
    return result;
}

#endif
