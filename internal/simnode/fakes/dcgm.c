//go:build ignore

/*
 * A fake libdcgm.so.4 with its host engine. It implements the calls that gpuledger
 * makes through go-dcgm, with data from the fake driver's state file, which nvml.c
 * describes. It is compiled against the headers in go-dcgm, so that a changed prototype
 * or struct in a new release breaks this build and not production.
 *
 * Environment, read at every dcgmInit:
 *
 *   GPULEDGER_FAKE_DCGM_STATE  the state file; while it does not exist, no connection
 *                              succeeds
 *   GPULEDGER_FAKE_DCGM_LOG    optional; the call log in the format of nvml.c, with
 *                              additional lines. If a call starts or stops to watch
 *                              a field: dcgmWatch or dcgmUnwatch, uuid, 0,
 *                              kind/entity/field. If a call requests a field that
 *                              is not watched: dcgmNotWatched, uuid, -16,
 *                              kind/entity/field.
 *
 * The state file contains these records in addition to the driver's records:
 *
 *   engine   library version       of this library and of the engine, such as 4.6.1
 *            up=0                  connections are refused
 *            generation            a new generation means that the engine was restarted, as
 *                                  does a new generation of the driver
 *            now                   the engine's clock, unix us; the system's clock if absent
 *            groups field_groups   numbers of groups that other clients use
 *            profiling=0           fields 1001 and above cannot be watched
 *            fields                the engine supports only fields below this id
 *   xid      gi                    the GPU instance; the whole board if absent
 *   fault    gpu call do           as in nvml.c; calls have the names of dcgm_agent.h
 *                                  without versions. The call field:<id> selects the
 *                                  values of a field, call=* the values of all fields:
 *            fail:<dcgmReturn_t>   the return code of a call, or the status of a value
 *            delay:<ms> hang       a call takes this long, or does not return
 *            blank                 no value, and status 0
 *            drop                  the value is missing, and a live read fails as a whole
 *            value:<number>        the value of a numeric field, also inf or nan
 *            hang                  for a GPU: its cached values do not change
 *
 * The fake reproduces this behaviour of DCGM, according to DCGM's source (v4.6.0):
 *
 *   - Calls fail before dcgmInit and a connection.
 *   - A client newer than the engine gets FUNCTION_NOT_FOUND for every latest value.
 *   - A cached read requires a watch. Cached values are as old as their last update.
 *   - Live reads return values in another order, NVML's own fields last. They succeed or
 *     fail as a whole.
 *   - A field that NVML does not support is blank with status 0.
 *   - Group names are unique in the whole engine. The limit of 64 groups of each kind also
 *     applies to the whole engine.
 *   - A watch continues after its group was removed. All objects end with the connection.
 *   - A watch fails if one pair of entity and field is invalid. The other pairs may then
 *     be watched nevertheless.
 *   - There is no data before the first XID.
 *   - Global fields belong to the system.
 *   - A read allocates a message of 4 MB in the thread of its caller, and receives a
 *     message of the same size.
 *   - An engine that was started without a driver has no GPUs and blank versions of the
 *     driver, with status 0.
 */
#define _GNU_SOURCE
#include "state.h"
#include <dcgm_agent.h>
#include <dcgm_fields.h>
#include <dcgm_structs.h>
#include <stdbool.h>
#include <dcgm_test_apis.h>
#include "fields.h"

enum { POLL_MS = 20, MAX_PAIRS = 256, MAX_WATCHES = 4096, FIRST_PROFILING = 1001 };

struct group {
    char name[128];
    dcgmGroupEntityPair_t pairs[MAX_PAIRS];
    int count;
};

struct field_group {
    char name[128];
    unsigned short ids[DCGM_MAX_FIELD_IDS_PER_FIELD_GROUP];
    int count;
};

/* A value with its time. */
struct sample {
    int status;
    int64_t ts;
    int64_t i64;
    double dbl;
    char str[DCGM_MAX_STR_LENGTH];
};

/* A watch of one field for one entity, and the cached values. */
struct watch {
    dcgmGroupEntityPair_t pair;
    unsigned short field;
    long long every; /* us; 0 if no client watches it */
    struct sample last;
    unsigned long long seq;    /* sequence number of the last XID */
    long long busy, busy_time; /* only for an instance: busy time at the last update, and time of the update, ns */
};

/* Guarded by the lock, like the state. */
static int initialised;
static dcgmHandle_t connection; /* 0 while there is no connection */
static dcgmHandle_t connections;
static char engine_seen[64]; /* the generations when the connection was opened */
static struct group *groups[DCGM_MAX_NUM_GROUPS];
static struct field_group *field_groups[DCGM_MAX_NUM_FIELD_GROUPS];
static struct watch watches[MAX_WATCHES];
static int watch_count;

/* ---- the engine ---- */

static const char *text(const char *name, const char *key, const char *otherwise)
{
    const char *v = get(next(name, NULL), key);
    return v ? v : otherwise;
}

static int64_t now(void)
{
    const char *fixed = text("engine", "now", NULL);
    struct timespec t;
    if (fixed)
        return strtoll(fixed, NULL, 10);
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Major and minor as one number: 4.6.1 is 406. */
static int version(const char *key)
{
    int major = 4, minor = 6;
    sscanf(text("engine", key, "4.6.1"), "%d.%d", &major, &minor);
    return major * 100 + minor;
}

/* Reports whether the engine supports a field. */
static int supports_field(unsigned short id) { return id < number(next("engine", NULL), "fields", DCGM_FI_MAX_FIELDS); }

/* Identifies the engine. A reload of the driver means another engine, because a running engine prevents unloading. */
static void identify(char *out, size_t size)
{
    snprintf(out, size, "%s/%s/%s", text("engine", "generation", "0"), text("driver", "generation", "0"),
             text("driver", "loaded", "1"));
}

/* Frees the connection's groups and watches in the engine. */
static void clean_up(void)
{
    for (int i = 0; i < DCGM_MAX_NUM_GROUPS; i++) {
        free(groups[i]);
        groups[i] = NULL;
    }
    for (int i = 0; i < DCGM_MAX_NUM_FIELD_GROUPS; i++) {
        free(field_groups[i]);
        field_groups[i] = NULL;
    }
    watch_count = 0;
    connection = 0;
}

static int has_driver(void) { return next("driver", NULL) && !is(next("driver", NULL), "loaded", "0"); }

/* Checks that the library is initialised, the connection open and the engine up. */
static dcgmReturn_t check_connection(dcgmHandle_t handle)
{
    char engine[64];
    if (!initialised)
        return DCGM_ST_UNINITIALIZED;
    if (!connection || handle != connection)
        return DCGM_ST_CONNECTION_NOT_VALID;
    identify(engine, sizeof engine);
    if (!state_text || is(next("engine", NULL), "up", "0") || strcmp(engine, engine_seen) != 0) {
        clean_up();
        return DCGM_ST_CONNECTION_NOT_VALID;
    }
    return DCGM_ST_OK;
}

/* ---- calls ---- */

/* Takes the lock and begins a call. The caller must end it, even after an error. */
static dcgmReturn_t begin(const char *name)
{
    pthread_mutex_lock(&lock);
    refresh();
    const char *delay = directive(name, "", "delay");
    if (delay)
        pause_unlocked(atol(delay));
    while (directive(name, "", "hang"))
        pause_unlocked(POLL_MS);
    await_fresh();
    const char *code = directive(name, "", "fail");
    return code ? (dcgmReturn_t)atoi(code) : DCGM_ST_OK;
}

/* Begins a call that requires the engine. */
static dcgmReturn_t begin_on(const char *name, dcgmHandle_t handle)
{
    dcgmReturn_t ret = begin(name);
    dcgmReturn_t there = check_connection(handle);
    return there != DCGM_ST_OK ? there : ret;
}

/* Logs the call and releases the lock. */
static dcgmReturn_t end(const char *name, dcgmReturn_t ret)
{
    log_call(name, "-", ret, "-");
    pthread_mutex_unlock(&lock);
    return ret;
}

const char *errorString(dcgmReturn_t result)
{
    switch (result) {
    case DCGM_ST_OK: return "Success";
    case DCGM_ST_BADPARAM: return "Bad parameter passed to function";
    case DCGM_ST_GENERIC_ERROR: return "Generic unspecified error";
    case DCGM_ST_NOT_SUPPORTED: return "Feature not supported";
    case DCGM_ST_UNINITIALIZED: return "DCGM has not yet been initialized";
    case DCGM_ST_VER_MISMATCH: return "API version mismatch";
    case DCGM_ST_NO_DATA: return "No data is available";
    case DCGM_ST_NOT_WATCHED: return "The requested field is not being watched";
    case DCGM_ST_GPU_IS_LOST: return "GPU is lost";
    case DCGM_ST_FUNCTION_NOT_FOUND: return "Function not found";
    case DCGM_ST_CONNECTION_NOT_VALID: return "Host engine connection invalid/disconnected";
    case DCGM_ST_MAX_LIMIT: return "Max limit reached for the object";
    case DCGM_ST_DUPLICATE_KEY: return "Duplicate key passed to function";
    case DCGM_ST_FIELD_UNSUPPORTED_BY_API: return "Field is not supported by this API";
    case DCGM_ST_PROFILING_LIBRARY_ERROR: return "The profiling module had an internal error";
    case DCGM_ST_NVML_NOT_LOADED: return "NVML is not loaded";
    default: return "Unknown error";
    }
}

/* ---- connections ---- */

dcgmReturn_t dcgmInit(void)
{
    pthread_mutex_lock(&lock);
    state_path = environment("GPULEDGER_FAKE_DCGM_STATE");
    open_log("GPULEDGER_FAKE_DCGM_LOG");
    memset(&state_seen, 0, sizeof state_seen);
    if (!refresh())
        parse(calloc(1, 1));
    pthread_mutex_unlock(&lock);
    dcgmReturn_t ret = begin("dcgmInit");
    if (ret == DCGM_ST_OK)
        initialised = 1;
    return end("dcgmInit", ret);
}

dcgmReturn_t dcgmShutdown(void)
{
    dcgmReturn_t ret = begin("dcgmShutdown");
    clean_up();
    initialised = 0;
    return end("dcgmShutdown", ret);
}

static dcgmReturn_t connect_call(const char *name, const char *address, dcgmHandle_t *handle)
{
    dcgmReturn_t ret = begin(name);
    if (ret == DCGM_ST_OK && !initialised)
        ret = DCGM_ST_UNINITIALIZED;
    if (ret == DCGM_ST_OK && (!address || !next("driver", NULL) || is(next("engine", NULL), "up", "0")))
        ret = DCGM_ST_CONNECTION_NOT_VALID;
    if (ret == DCGM_ST_OK) {
        clean_up();
        identify(engine_seen, sizeof engine_seen);
        *handle = connection = ++connections;
    }
    log_call(name, "-", ret, address ? address : "-");
    pthread_mutex_unlock(&lock);
    return ret;
}

dcgmReturn_t dcgmConnect_v2(const char *address, dcgmConnectV2Params_t *params, dcgmHandle_t *handle)
{
    if (params->version != dcgmConnectV2Params_version2)
        return DCGM_ST_VER_MISMATCH;
    return connect_call(params->addressIsUnixSocket ? "dcgmConnectSocket" : "dcgmConnectTCP", address, handle);
}

dcgmReturn_t dcgmConnect_v3(const char *connectionString, dcgmConnectV3Params_t *params, dcgmHandle_t *handle)
{
    if (params->version != dcgmConnectV3Params_version1)
        return DCGM_ST_VER_MISMATCH;
    return connect_call("dcgmConnectURI", connectionString, handle);
}

dcgmReturn_t dcgmDisconnect(dcgmHandle_t handle)
{
    dcgmReturn_t ret = begin_on("dcgmDisconnect", handle);
    if (ret == DCGM_ST_OK)
        clean_up();
    return end("dcgmDisconnect", ret);
}

dcgmReturn_t dcgmStartEmbedded(dcgmOperationMode_t mode, dcgmHandle_t *handle)
{
    (void)mode;
    return connect_call("dcgmStartEmbedded", "-", handle);
}

dcgmReturn_t dcgmStopEmbedded(dcgmHandle_t handle)
{
    dcgmReturn_t ret = begin_on("dcgmStopEmbedded", handle);
    if (ret == DCGM_ST_OK)
        clean_up();
    return end("dcgmStopEmbedded", ret);
}

static dcgmReturn_t version_call(const char *name, dcgmReturn_t ret, const char *key, dcgmVersionInfo_t *out)
{
    if (ret == DCGM_ST_OK && out->version != dcgmVersionInfo_version2)
        ret = DCGM_ST_VER_MISMATCH;
    if (ret == DCGM_ST_OK)
        snprintf(out->rawBuildInfoString, sizeof out->rawBuildInfoString, "version:%s;arch:x86_64;buildtype:Release",
                 text("engine", key, "4.6.1"));
    return end(name, ret);
}

dcgmReturn_t dcgmVersionInfo(dcgmVersionInfo_t *out)
{
    return version_call("dcgmVersionInfo", begin("dcgmVersionInfo"), "library", out);
}

dcgmReturn_t dcgmHostengineVersionInfo(dcgmHandle_t handle, dcgmVersionInfo_t *out)
{
    return version_call("dcgmHostengineVersionInfo", begin_on("dcgmHostengineVersionInfo", handle), "version", out);
}

/* ---- entities ---- */

static struct record *gpu_of(unsigned int id)
{
    for (struct record *g = next("gpu", NULL); g; g = next("gpu", g))
        if (number(g, "index", 0) == id)
            return g;
    return NULL;
}

enum { PER_GPU = 8 };

/* Returns the GPU instance with an entity id. The ids of a GPU's instances follow the order of their
 * creation and are unrelated to the ids in NVML. */
static struct record *instance_of(unsigned int id)
{
    const struct record *g = gpu_of(id / PER_GPU);
    unsigned int n = 0;
    for (struct record *i = g ? next("instance", NULL) : NULL; i; i = next("instance", i)) {
        if (!is(i, "gpu", uuid_of(g, "uuid")) || number(i, "ci", 0) != 0)
            continue;
        if (n++ == id % PER_GPU)
            return i;
    }
    return NULL;
}

/* Returns the record of an entity. The driver's record represents the system. */
static struct record *entity(dcgmGroupEntityPair_t pair)
{
    switch (pair.entityGroupId) {
    case DCGM_FE_NONE: return next("driver", NULL);
    case DCGM_FE_GPU: return gpu_of(pair.entityId);
    case DCGM_FE_GPU_I: return instance_of(pair.entityId);
    default: return NULL;
    }
}

static const char *uuid_in(dcgmGroupEntityPair_t pair)
{
    const struct record *r = entity(pair);
    return pair.entityGroupId == DCGM_FE_GPU_I ? uuid_of(r, "gpu") : uuid_of(r, "uuid");
}

dcgmReturn_t dcgmGetAllSupportedDevices(dcgmHandle_t handle, unsigned int ids[DCGM_MAX_NUM_DEVICES], int *count)
{
    dcgmReturn_t ret = begin_on("dcgmGetAllSupportedDevices", handle);
    if (ret == DCGM_ST_OK) {
        *count = 0;
        for (struct record *g = next("gpu", NULL); g && has_driver() && *count < DCGM_MAX_NUM_DEVICES; g = next("gpu", g))
            ids[(*count)++] = (unsigned int)number(g, "index", 0);
    }
    return end("dcgmGetAllSupportedDevices", ret);
}

static void add_instances(dcgmMigHierarchy_v2 *out, const struct record *g)
{
    unsigned int index = (unsigned int)number(g, "index", 0);
    for (unsigned int n = 0; n < PER_GPU && instance_of(index * PER_GPU + n); n++) {
        const struct record *i = instance_of(index * PER_GPU + n);
        dcgmMigHierarchyInfo_v2 *e = &out->entityList[out->count++];
        e->parent = (dcgmGroupEntityPair_t){DCGM_FE_GPU, index};
        e->entity = (dcgmGroupEntityPair_t){DCGM_FE_GPU_I, index * PER_GPU + n};
        e->info = (dcgmMigEntityInfo_t){
            .nvmlGpuIndex = index,
            .nvmlInstanceId = (unsigned int)number(i, "gi", 0),
            .nvmlComputeInstanceId = (unsigned int)-1,
            .nvmlMigProfileId = (unsigned int)number(i, "profile", (unsigned int)-1),
            .nvmlProfileSlices = (unsigned int)number(i, "gi_slices", 0),
        };
        snprintf(e->info.gpuUuid, sizeof e->info.gpuUuid, "%s", uuid_of(g, "uuid"));
    }
}

dcgmReturn_t dcgmGetGpuInstanceHierarchy(dcgmHandle_t handle, dcgmMigHierarchy_v2 *out)
{
    dcgmReturn_t ret = begin_on("dcgmGetGpuInstanceHierarchy", handle);
    if (ret == DCGM_ST_OK && out->version != dcgmMigHierarchy_version2)
        ret = DCGM_ST_VER_MISMATCH;
    if (ret == DCGM_ST_OK) {
        out->count = 0;
        for (struct record *g = next("gpu", NULL); g; g = next("gpu", g))
            if (is(g, "mig", "1"))
                add_instances(out, g);
    }
    return end("dcgmGetGpuInstanceHierarchy", ret);
}

/* ---- groups ---- */

/* A group's id is its index plus one, so that 0 means no group. */
static struct group *group_of(dcgmGpuGrp_t id) { return id >= 1 && id <= DCGM_MAX_NUM_GROUPS ? groups[id - 1] : NULL; }

static struct field_group *field_group_of(dcgmFieldGrp_t id)
{
    return id >= 1 && id <= DCGM_MAX_NUM_FIELD_GROUPS ? field_groups[id - 1] : NULL;
}

dcgmReturn_t dcgmGroupCreate(dcgmHandle_t handle, dcgmGroupType_t type, const char *name, dcgmGpuGrp_t *id)
{
    dcgmReturn_t ret = begin_on("dcgmGroupCreate", handle);
    int room = DCGM_MAX_NUM_GROUPS - (int)number(next("engine", NULL), "groups", 0), at = -1;
    for (int i = 0; i < DCGM_MAX_NUM_GROUPS; i++) {
        if (groups[i] && strcmp(groups[i]->name, name) == 0 && ret == DCGM_ST_OK)
            ret = DCGM_ST_DUPLICATE_KEY;
        if (!groups[i] && at < 0)
            at = i;
        room -= groups[i] != NULL;
    }
    if (ret == DCGM_ST_OK && (room <= 0 || at < 0))
        ret = DCGM_ST_MAX_LIMIT;
    if (ret == DCGM_ST_OK && type != DCGM_GROUP_EMPTY)
        ret = DCGM_ST_NOT_SUPPORTED;
    if (ret == DCGM_ST_OK) {
        groups[at] = calloc(1, sizeof *groups[at]);
        snprintf(groups[at]->name, sizeof groups[at]->name, "%s", name);
        *id = (dcgmGpuGrp_t)(at + 1);
    }
    return end("dcgmGroupCreate", ret);
}

dcgmReturn_t dcgmGroupAddEntity(dcgmHandle_t handle, dcgmGpuGrp_t id, dcgm_field_entity_group_t group, dcgm_field_eid_t eid)
{
    dcgmReturn_t ret = begin_on("dcgmGroupAddEntity", handle);
    struct group *g = group_of(id);
    dcgmGroupEntityPair_t pair = {group, eid};
    if (ret == DCGM_ST_OK && (!g || g->count == MAX_PAIRS || !entity(pair)))
        ret = DCGM_ST_BADPARAM;
    if (ret == DCGM_ST_OK)
        g->pairs[g->count++] = pair;
    return end("dcgmGroupAddEntity", ret);
}

dcgmReturn_t dcgmGroupDestroy(dcgmHandle_t handle, dcgmGpuGrp_t id)
{
    dcgmReturn_t ret = begin_on("dcgmGroupDestroy", handle);
    if (ret == DCGM_ST_OK && !group_of(id))
        ret = DCGM_ST_NOT_CONFIGURED;
    if (ret == DCGM_ST_OK) {
        free(groups[id - 1]);
        groups[id - 1] = NULL;
    }
    return end("dcgmGroupDestroy", ret);
}

dcgmReturn_t dcgmFieldGroupCreate(dcgmHandle_t handle, int count, const unsigned short *ids, const char *name, dcgmFieldGrp_t *id)
{
    dcgmReturn_t ret = begin_on("dcgmFieldGroupCreate", handle);
    int room = DCGM_MAX_NUM_FIELD_GROUPS - (int)number(next("engine", NULL), "field_groups", 0), at = -1;
    if (ret == DCGM_ST_OK && (count < 1 || count > DCGM_MAX_FIELD_IDS_PER_FIELD_GROUP))
        ret = DCGM_ST_BADPARAM;
    for (int i = 0; i < count && ret == DCGM_ST_OK; i++)
        if (ids[i] == 0 || !supports_field(ids[i]))
            ret = DCGM_ST_BADPARAM;
    for (int i = 0; i < DCGM_MAX_NUM_FIELD_GROUPS; i++) {
        if (field_groups[i] && strcmp(field_groups[i]->name, name) == 0 && ret == DCGM_ST_OK)
            ret = DCGM_ST_DUPLICATE_KEY;
        if (!field_groups[i] && at < 0)
            at = i;
        room -= field_groups[i] != NULL;
    }
    if (ret == DCGM_ST_OK && (room <= 0 || at < 0))
        ret = DCGM_ST_MAX_LIMIT;
    if (ret == DCGM_ST_OK) {
        struct field_group *g = field_groups[at] = calloc(1, sizeof *g);
        snprintf(g->name, sizeof g->name, "%s", name);
        memcpy(g->ids, ids, count * sizeof *ids);
        g->count = count;
        *id = (dcgmFieldGrp_t)(at + 1);
    }
    return end("dcgmFieldGroupCreate", ret);
}

dcgmReturn_t dcgmFieldGroupDestroy(dcgmHandle_t handle, dcgmFieldGrp_t id)
{
    dcgmReturn_t ret = begin_on("dcgmFieldGroupDestroy", handle);
    if (ret == DCGM_ST_OK && !field_group_of(id))
        ret = DCGM_ST_NOT_CONFIGURED;
    if (ret == DCGM_ST_OK) {
        free(field_groups[id - 1]);
        field_groups[id - 1] = NULL;
    }
    return end("dcgmFieldGroupDestroy", ret);
}

/* ---- values ---- */

static const struct field *known(unsigned short id)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].id == id)
            return &fields[i];
    return NULL;
}

static char type_of(unsigned short id)
{
    const struct field *f = known(id);
    if (f)
        return f->type;
    if (id == DCGM_FI_SYSTEM_DRIVER_VERSION || id == DCGM_FI_SYSTEM_NVML_VERSION)
        return DCGM_FT_STRING;
    return id >= FIRST_PROFILING && id < FIRST_PROFILING + 100 ? DCGM_FT_DOUBLE : DCGM_FT_INT64;
}

/* DCGM declares XIDs for compute instances, but the XIDs of a whole board belong to the GPU. */
static dcgm_field_entity_group_t level_of(unsigned short id)
{
    if (id < 10)
        return DCGM_FE_NONE;
    return id == DCGM_FI_DEV_XID_ERROR || (id >= FIRST_PROFILING && id < 1005) ? DCGM_FE_GPU_CI : DCGM_FE_GPU;
}

dcgm_field_meta_p DcgmFieldGetById(unsigned short id)
{
    static dcgm_field_meta_t metas[DCGM_FI_MAX_FIELDS];
    if (id >= DCGM_FI_MAX_FIELDS)
        return NULL;
    metas[id] = (dcgm_field_meta_t){
        .fieldId = id,
        .fieldType = type_of(id),
        .scope = id < 10 ? DCGM_FS_GLOBAL : DCGM_FS_ENTITY,
        .entityLevel = level_of(id),
    };
    return &metas[id];
}

static void blank(struct sample *s, int code)
{
    static const char *const texts[] = {DCGM_STR_BLANK, DCGM_STR_NOT_FOUND, DCGM_STR_NOT_SUPPORTED, DCGM_STR_NOT_PERMISSIONED};
    s->i64 = DCGM_INT64_BLANK + code;
    s->dbl = DCGM_FP64_BLANK + code;
    snprintf(s->str, sizeof s->str, "%s", texts[code]);
}

/* Formats 32 hex digits as a UUID, as DCGM does. */
static void dashed(char *out, size_t size, const char *hex)
{
    if (strlen(hex) == 32)
        snprintf(out, size, "%.8s-%.4s-%.4s-%.4s-%s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

/* Returns the value of a field for an entity as text, or NULL. */
static const char *lookup(const struct record *r, dcgmGroupEntityPair_t pair, unsigned short id, char *own, size_t size)
{
    const struct field *f = known(id);
    const char *v;
    if (pair.entityGroupId == DCGM_FE_NONE && !has_driver())
        return NULL;
    if (pair.entityGroupId == DCGM_FE_NONE)
        return id == DCGM_FI_SYSTEM_DRIVER_VERSION ? get(r, "version") : id == DCGM_FI_SYSTEM_NVML_VERSION ? get(r, "nvml") : NULL;
    snprintf(own, size, "f%d", id);
    if ((v = get(r, own)))
        return v;
    if (!f || (id == DCGM_FI_DEV_GPU_UTIL_RATIO && is(r, "mig", "1")))
        return NULL;
    v = get(r, f->key);
    if (pair.entityGroupId == DCGM_FE_GPU_I && id == DCGM_FI_DEV_GPU_NAME) {
        v = v && strstr(v, "MIG ") ? strstr(v, "MIG ") + 4 : v; /* only the GPU instance's profile */
        return v && strncmp(v, "1c.", 3) == 0 ? v + 3 : v;
    }
    if (id == DCGM_FI_DEV_FABRIC_CLUSTER_UUID && v) {
        dashed(own, size, v);
        return own;
    }
    return v;
}

/* Converts the value of a field from the unit in the state to the unit of the field. */
static void convert(struct sample *s, unsigned short id, const char *v)
{
    const struct field *f = known(id);
    double scale = f && strcmp(f->key, "") != 0 ? f->scale : 1;
    s->i64 = (int64_t)((double)strtoll(v, NULL, 10) / scale);
    if (scale == 1)
        s->i64 = strtoll(v, NULL, 10); /* counters exceed the precision of a double */
    s->dbl = strtod(v, NULL) / scale;
    snprintf(s->str, sizeof s->str, "%s", v);
}

/* Measures how busy an instance was since its last update. The first update has no value. */
static void measure(struct watch *w, const struct record *r, struct sample *s)
{
    long long busy = (long long)number(r, "sm_busy", 0), at = (long long)number(next("driver", NULL), "time", 0);
    if (w && w->busy_time > 0 && at > w->busy_time)
        s->dbl = (double)(busy - w->busy) / (double)(at - w->busy_time);
    else
        blank(s, 0);
    if (w)
        w->busy = busy, w->busy_time = at;
}

/* Reads the current value of a field from the driver. Returns 0 if there is no value. */
static int look_up(struct watch *w, dcgmGroupEntityPair_t pair, unsigned short id, struct sample *s)
{
    char call[32], own[64];
    const struct record *r = entity(pair);
    const char *uuid = uuid_in(pair);
    memset(s, 0, sizeof *s);
    snprintf(call, sizeof call, "field:%d", id);
    s->ts = now();
    if (directive(call, uuid, "drop"))
        return 0;
    const char *code = directive(call, uuid, "fail");
    const struct record *board = pair.entityGroupId == DCGM_FE_GPU_I ? by_uuid("gpu", uuid) : r;
    if (is(board, "lost", "1"))
        code = "-18";
    const char *v = lookup(r, pair, id, own, sizeof own), *injected = directive(call, uuid, "value");
    if (injected && type_of(id) != DCGM_FT_STRING) {
        s->i64 = strtoll(injected, NULL, 10);
        s->dbl = strtod(injected, NULL);
    } else if (code || directive(call, uuid, "blank")) {
        s->status = code ? atoi(code) : DCGM_ST_OK;
        blank(s, 0);
    } else if (id == DCGM_FI_PROF_SM_UTIL_RATIO && get(r, "sm_busy")) {
        measure(w, r, s);
    } else if (!v) {
        blank(s, has_driver() ? 2 : 0);
    } else {
        convert(s, id, v);
    }
    return 1;
}

static int same(dcgmGroupEntityPair_t a, dcgmGroupEntityPair_t b)
{
    return a.entityGroupId == b.entityGroupId && a.entityId == b.entityId;
}

static struct watch *watch_of(dcgmGroupEntityPair_t pair, unsigned short id)
{
    for (int i = 0; i < watch_count; i++)
        if (same(watches[i].pair, pair) && watches[i].field == id && watches[i].every > 0)
            return &watches[i];
    return NULL;
}

/* Reports whether an XID belongs to the entity, which is a whole GPU or a GPU instance. */
static int of_entity(const struct record *xid, dcgmGroupEntityPair_t pair)
{
    const char *gi = get(xid, "gi");
    return pair.entityGroupId == DCGM_FE_GPU_I ? gi && is(entity(pair), "gi", gi) : !gi;
}

/* XIDs are events, so each XID becomes a sample when it occurs. There is no data before the first XID.
 * For a GPU without events there is never any data. */
static void update_xids(struct watch *w, int first)
{
    if (first) {
        w->last = (struct sample){.status = DCGM_ST_NO_DATA, .ts = now()};
        blank(&w->last, 0);
    }
    const char *uuid = uuid_in(w->pair);
    for (struct record *x = next("xid", NULL); x && get(by_uuid("gpu", uuid), "events"); x = next("xid", x)) {
        unsigned long long seq = number(x, "seq", 0);
        if (!is(x, "gpu", uuid) || !of_entity(x, w->pair) || seq <= w->seq)
            continue;
        w->seq = seq;
        if (first)
            continue;
        w->last = (struct sample){.i64 = (int64_t)number(x, "code", 0), .ts = w->last.ts >= now() ? w->last.ts + 1 : now()};
    }
}

/* Updates a watch if it is due. A hanging GPU is not updated. */
static void update(struct watch *w)
{
    int first = w->last.ts == 0;
    if (!first && directive("*", uuid_in(w->pair), "hang"))
        return;
    if (w->field == DCGM_FI_DEV_XID_ERROR) {
        update_xids(w, first);
        return;
    }
    if (!first && now() - w->last.ts < w->every)
        return;
    struct sample s;
    if (look_up(w, w->pair, w->field, &s))
        w->last = s;
}

static void fill(dcgmFieldValue_v2 *out, dcgmGroupEntityPair_t pair, unsigned short id, const struct sample *s)
{
    memset(out, 0, sizeof *out);
    out->version = dcgmFieldValue_version2;
    out->entityGroupId = pair.entityGroupId;
    out->entityId = pair.entityId;
    out->fieldId = id;
    out->fieldType = (unsigned short)type_of(id);
    out->status = s->status;
    out->ts = s->status == DCGM_ST_NO_DATA ? 0 : s->ts;
    if (type_of(id) == DCGM_FT_STRING)
        snprintf(out->value.str, sizeof out->value.str, "%s", s->str);
    else if (type_of(id) == DCGM_FT_DOUBLE)
        out->value.dbl = s->dbl;
    else
        out->value.i64 = s->i64;
}

static void report_field(const char *name, dcgmGroupEntityPair_t pair, unsigned short id, int ret)
{
    char what[64];
    snprintf(what, sizeof what, "%d/%u/%d", (int)pair.entityGroupId, (unsigned int)pair.entityId, id);
    log_call(name, entity(pair) ? uuid_in(pair) : "-", ret, what);
}

static void cached(dcgmFieldValue_v2 *out, dcgmGroupEntityPair_t pair, unsigned short id)
{
    struct sample none = {.status = DCGM_ST_NOT_WATCHED};
    struct watch *w = watch_of(pair, id);
    blank(&none, 0);
    if (w)
        update(w);
    else
        report_field("dcgmNotWatched", pair, id, DCGM_ST_NOT_WATCHED);
    fill(out, pair, id, w ? &w->last : &none);
}

/* Returns the i-th field in the order of a live read, which is reversed, with NVML's own fields last. */
static unsigned short shuffled(const unsigned short *ids, unsigned int count, unsigned int i)
{
    unsigned int n = 0;
    for (int mapped = 0; mapped < 2; mapped++)
        for (unsigned int k = count; k-- > 0;)
            if ((ids[k] == DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION) == mapped && n++ == i)
                return ids[k];
    return 0;
}

static int refuses_live(unsigned short id)
{
    return id == 210 || id == 211 || id == 220 || id == 221 || id == 501;
}

static dcgmReturn_t live(dcgmFieldValue_v2 *out, dcgmGroupEntityPair_t pair, unsigned short id)
{
    struct sample s;
    if (refuses_live(id))
        return DCGM_ST_FIELD_UNSUPPORTED_BY_API;
    if (!has_driver() && pair.entityGroupId != DCGM_FE_NONE)
        return DCGM_ST_NVML_NOT_LOADED;
    if (!look_up(NULL, pair, id, &s) || s.status != DCGM_ST_OK)
        return DCGM_ST_GENERIC_ERROR;
    fill(out, pair, id, &s);
    return DCGM_ST_OK;
}

/* Allocates the same memory as libdcgm for a read: a request for 1,024 values, even to read a single
 * value, and a response of the same size. */
static void exchange(void)
{
    enum { MOST_VALUES = 1024, SIZE = MOST_VALUES * sizeof(dcgmFieldValue_v2) };
    char *request = malloc(SIZE), *response = malloc(SIZE);
    if (request && response) {
        explicit_bzero(request, SIZE); /* must not be optimised away */
        explicit_bzero(response, SIZE);
    }
    free(response);
    free(request);
}

dcgmReturn_t dcgmEntitiesGetLatestValues(dcgmHandle_t handle, dcgmGroupEntityPair_t entities[], unsigned int entityCount,
                                         unsigned short ids[], unsigned int fieldCount, unsigned int flags,
                                         dcgmFieldValue_v2 values[])
{
    const char *name = flags & DCGM_FV_FLAG_LIVE_DATA ? "dcgmLiveValues" : "dcgmLatestValues";
    dcgmReturn_t ret = begin_on(name, handle);
    exchange();
    if (ret == DCGM_ST_OK && version("library") >= 406 && version("version") < 406)
        ret = DCGM_ST_FUNCTION_NOT_FOUND;
    for (unsigned int k = 0; k < fieldCount && ret == DCGM_ST_OK; k++)
        if (!supports_field(ids[k]))
            ret = DCGM_ST_BADPARAM;
    for (unsigned int e = 0; e < entityCount && ret == DCGM_ST_OK; e++) {
        if (!entity(entities[e]))
            ret = DCGM_ST_BADPARAM;
        for (unsigned int k = 0; k < fieldCount && ret == DCGM_ST_OK; k++) {
            dcgmFieldValue_v2 *out = &values[e * fieldCount + k];
            if (flags & DCGM_FV_FLAG_LIVE_DATA)
                ret = live(out, entities[entityCount - 1 - e], shuffled(ids, fieldCount, k));
            else
                cached(out, entities[e], ids[k]);
        }
    }
    return end(name, ret);
}

/* ---- watches ---- */

static dcgmReturn_t watch(dcgmGroupEntityPair_t pair, unsigned short id, long long every)
{
    struct watch *w = watch_of(pair, id);
    if (!entity(pair))
        return DCGM_ST_BADPARAM;
    if (id >= FIRST_PROFILING && id < FIRST_PROFILING + 100 && is(next("engine", NULL), "profiling", "0"))
        return DCGM_ST_PROFILING_LIBRARY_ERROR;
    if (!w && watch_count == MAX_WATCHES)
        return DCGM_ST_MEMORY;
    report_field("dcgmWatch", pair, id, DCGM_ST_OK);
    if (w) {
        w->every = every; /* a connection is one watcher, so its last interval applies */
        return DCGM_ST_OK;
    }
    watches[watch_count++] = (struct watch){.pair = pair, .field = id, .every = every};
    return DCGM_ST_OK;
}

dcgmReturn_t dcgmWatchFields(dcgmHandle_t handle, dcgmGpuGrp_t group, dcgmFieldGrp_t field_group, long long every, double age, int samples)
{
    dcgmReturn_t ret = begin_on("dcgmWatchFields", handle);
    const struct group *g = group_of(group);
    const struct field_group *f = field_group_of(field_group);
    if (ret == DCGM_ST_OK && (!g || !f || every <= 0 || (age <= 0 && samples <= 0)))
        ret = DCGM_ST_BADPARAM;
    for (int i = 0; ret == DCGM_ST_OK && i < g->count; i++)
        for (int k = 0; ret == DCGM_ST_OK && k < f->count; k++)
            ret = watch(g->pairs[i], f->ids[k], every);
    return end("dcgmWatchFields", ret);
}

dcgmReturn_t dcgmUnwatchFields(dcgmHandle_t handle, dcgmGpuGrp_t group, dcgmFieldGrp_t field_group)
{
    dcgmReturn_t ret = begin_on("dcgmUnwatchFields", handle);
    const struct group *g = group_of(group);
    const struct field_group *f = field_group_of(field_group);
    if (ret == DCGM_ST_OK && (!g || !f))
        ret = DCGM_ST_BADPARAM;
    for (int i = 0; ret == DCGM_ST_OK && i < g->count; i++)
        for (int k = 0; k < f->count; k++) {
            struct watch *w = watch_of(g->pairs[i], f->ids[k]);
            if (!w)
                continue;
            w->every = 0;
            report_field("dcgmUnwatch", w->pair, w->field, DCGM_ST_OK);
        }
    return end("dcgmUnwatchFields", ret);
}

dcgmReturn_t dcgmUpdateAllFields(dcgmHandle_t handle, int wait)
{
    dcgmReturn_t ret = begin_on("dcgmUpdateAllFields", handle);
    for (int i = 0; ret == DCGM_ST_OK && wait && i < watch_count; i++)
        if (watches[i].every > 0)
            update(&watches[i]);
    return end("dcgmUpdateAllFields", ret);
}
