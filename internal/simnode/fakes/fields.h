//go:build ignore

/*
 * The table contains the fields of the fake host engine, with the key of each field in the
 * driver's state. If a field of the library is missing in the table, a GPU supports the field
 * only if the GPU's record contains a key with the field's number, such as f409=17.
 */
#ifndef FIELDS_H
#define FIELDS_H

struct field {
    unsigned short id;
    char type; /* DCGM_FT_… */
    const char *key;
    double scale; /* one unit of the field, in the unit of the state */
};

static const struct field fields[] = {
    {DCGM_FI_DEV_GPU_NAME, DCGM_FT_STRING, "name", 1},
    {DCGM_FI_DEV_NVML_INDEX, DCGM_FT_INT64, "index", 1},
    {DCGM_FI_DEV_BOARD_SERIAL, DCGM_FT_STRING, "serial", 1},
    {DCGM_FI_DEV_GPU_UUID, DCGM_FT_STRING, "uuid", 1},
    {DCGM_FI_DEV_GPU_MINOR_NUMBER, DCGM_FT_INT64, "minor", 1},
    {DCGM_FI_DEV_PCI_BUS_ID, DCGM_FT_STRING, "bus", 1},
    {DCGM_FI_DEV_MIG_MODE, DCGM_FT_INT64, "mig", 1},
    {DCGM_FI_DEV_MIG_MAX_SLICES, DCGM_FT_INT64, "mig_slices", 1},
    {DCGM_FI_DEV_VBIOS_VERSION, DCGM_FT_STRING, "vbios", 1},
    {DCGM_FI_DEV_SM_CLOCK, DCGM_FT_INT64, "sm_clock", 1},
    {DCGM_FI_DEV_MEM_CLOCK, DCGM_FT_INT64, "memory_clock", 1},
    {DCGM_FI_DEV_MEMORY_TEMP_CELSIUS, DCGM_FT_INT64, "memory_temperature", 1},
    {DCGM_FI_DEV_GPU_TEMP_CELSIUS, DCGM_FT_INT64, "temperature", 1},
    {DCGM_FI_DEV_BOARD_POWER_WATTS, DCGM_FT_DOUBLE, "power", 1000},
    {DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, DCGM_FT_INT64, "energy", 1},
    {DCGM_FI_DEV_BOARD_POWER_RAW_WATTS, DCGM_FT_DOUBLE, "power", 1000},
    {DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS, DCGM_FT_DOUBLE, "power_max", 1000},
    {DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS, DCGM_FT_DOUBLE, "power_limit", 1000},
    {DCGM_FI_DEV_FABRIC_MANAGER_STATUS, DCGM_FT_INT64, "fabric_state", 1},
    {DCGM_FI_DEV_FABRIC_MANAGER_ERROR, DCGM_FT_INT64, "fabric_error", 1},
    {DCGM_FI_DEV_FABRIC_CLUSTER_UUID, DCGM_FT_STRING, "fabric_cluster", 1},
    {DCGM_FI_DEV_FABRIC_CLIQUE_ID, DCGM_FT_INT64, "fabric_clique", 1},
    {DCGM_FI_DEV_GPU_UTIL_RATIO, DCGM_FT_INT64, "utilization", 1},
    {DCGM_FI_DEV_MEM_COPY_UTIL, DCGM_FT_INT64, "memory_utilization", 1},
    {DCGM_FI_DEV_XID_ERROR, DCGM_FT_INT64, "", 1},
    {DCGM_FI_DEV_FB_TOTAL, DCGM_FT_INT64, "memory_total", 1 << 20},
    {DCGM_FI_DEV_FB_FREE, DCGM_FT_INT64, "memory_free", 1 << 20},
    {DCGM_FI_DEV_FB_USED, DCGM_FT_INT64, "memory_used", 1 << 20},
    {DCGM_FI_DEV_ROW_REMAP_FAILED, DCGM_FT_INT64, "remap_failed", 1},
    {DCGM_FI_DEV_ROW_REMAP_PENDING, DCGM_FT_INT64, "remap_pending", 1},
    {DCGM_FI_DEV_PLATFORM_CHASSIS_SERIAL_NUMBER, DCGM_FT_STRING, "chassis", 1},
    {DCGM_FI_DEV_PLATFORM_CHASSIS_SLOT_NUMBER, DCGM_FT_INT64, "slot", 1},
    {DCGM_FI_DEV_PLATFORM_TRAY_INDEX, DCGM_FT_INT64, "tray", 1},
    {DCGM_FI_DEV_PLATFORM_HOST_ID, DCGM_FT_INT64, "host", 1},
    {DCGM_FI_DEV_PLATFORM_PEER_TYPE, DCGM_FT_INT64, "peer", 1},
    {DCGM_FI_DEV_PLATFORM_MODULE_ID, DCGM_FT_INT64, "module", 1},
    {DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO, DCGM_FT_DOUBLE, "sm", 100},
    {DCGM_FI_PROF_SM_UTIL_RATIO, DCGM_FT_DOUBLE, "sm", 100},
};

#endif
