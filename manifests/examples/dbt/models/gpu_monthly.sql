-- This model includes the sums of pruned hours, so that a closed month keeps its amounts.
select cluster, month, model, namespace, workload_kind, workload_name, team, reason, manager, unit, username,
  cast(sum(energy_mj) as bigint) as energy_mj, cast(sum(exclusive_mj) as bigint) as exclusive_mj, cast(sum(idle_mj) as bigint) as idle_mj,
  cast(sum(estimated_mj) as bigint) as estimated_mj, cast(sum(gpu_ms) as bigint) as gpu_ms, cast(sum(active_ms) as bigint) as active_ms,
  cast(sum(busy_ms) as bigint) as busy_ms, cast(nullif(sum(profiled_ms), 0) as bigint) as profiled_ms,
  cast(case when sum(profiled_ms) <> 0 then sum(tensor_active_ms) end as bigint) as tensor_active_ms,
  cast(case when sum(profiled_ms) <> 0 then sum(dram_active_ms) end as bigint) as dram_active_ms
from (
  select cluster, month, model, namespace, workload_kind, workload_name, team, reason, manager, unit, username,
    energy_mj, exclusive_mj, idle_mj, estimated_mj, gpu_ms, active_ms, busy_ms, profiled_ms, tensor_active_ms, dram_active_ms
  from {{ ref('gpu_billed') }} as billed
  union all
  select cluster, {{ utc_month('month') }} as month, model, namespace, workload_kind, workload_name, team, reason, manager, unit, username,
    energy_mj, exclusive_mj, idle_mj, estimated_mj, gpu_ms, active_ms, busy_ms, profiled_ms, tensor_active_ms, dram_active_ms
  from {{ source('gpuledger', 'monthly_charges') }} as pruned
) as filed
group by cluster, month, model, namespace, workload_kind, workload_name, team, reason, manager, unit, username
